"""The untrusted side: what runs inside a cage. The host never imports this package."""
