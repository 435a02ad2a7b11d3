"""Instruments: programs that run beside the candidate in a cage and leave evidence. The host never imports them."""
