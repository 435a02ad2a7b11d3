"""Messages between judge, PID 1 and a request's child: fixed structs over SOCK_SEQPACKET, one message a packet.

``sandboxes/wire.py`` is the cage's copy; a test holds the two together.
"""

import struct

READY = struct.Struct("<4sI8s")  # tag, threads of PID 1, name of its scope
START = struct.Struct("<4sI7Q")  # tag, flags, limits; with it: text pipe, folder channel, input and output mapping
CALL = struct.Struct("<4sIII")  # tag, sequence number, first slot, count of slots
REPLY = struct.Struct("<4sIIq")  # tag, sequence number, status, ns by the child's own clock
HELD = struct.Struct("<4sI")  # tag, 1 when everything is seen to be stopped: follows each reply
DONE = struct.Struct("<4siiQQQQQ")  # tag, exit code, signal, wall ns, cpu us, peak rss KiB, 512-byte blocks in, out
STANDING = 1
OK, ERROR, EARLY, LOST = range(4)
