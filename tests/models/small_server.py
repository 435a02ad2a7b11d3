"""A small real model on loopback: ``python -m tests.models.small_server WEIGHTS``; prints its address, serves until it is killed."""

import signal
import sys

import xllamacpp


def main() -> None:
    """See the module."""
    asked = xllamacpp.CommonParams()
    asked.model.path = sys.argv[1]
    asked.n_ctx, asked.n_parallel, asked.n_predict, asked.use_jinja = 8192, 1, 48, True
    asked.cpuparams.n_threads = 2
    server = xllamacpp.Server(asked)
    print(f"address {server.listening_address}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
