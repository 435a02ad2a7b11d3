"""infra-agent: a language model improves GPU kernels and serving code, and people can trust what comes out."""

__version__ = "0.1.0"
