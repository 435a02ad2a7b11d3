"""The agent: a model, a gate, a cage and a judge, in that order, until a proposal or a limit."""
