"""Reaching the host and the world: TCP, UDP, names, UNIX sockets, and the stranger families of sockets."""

from infra_agent.sandbox.attacks.base import Attack, script
from infra_agent.sandbox.attacks.descriptors import KNOW

_HOSTS = """
import re, socket, struct
def addresses():
    # every address of this machine that can be found or guessed
    found = ["127.0.0.1", "::1", "localhost", "0.0.0.0", "127.0.0.2", "::ffff:127.0.0.1", socket.gethostname()]
    try:
        with open("/proc/net/fib_trie") as file:
            found += re.findall(r"([0-9.]+)\\n\\s+/32 host LOCAL", file.read())
    except OSError:
        pass
    try:
        with open("/proc/net/route") as file:
            found += [socket.inet_ntoa(struct.pack("<L", int(line.split()[2], 16))) for line in file.readlines()[1:]]
    except (OSError, ValueError):
        pass
    found += ["10.0.2.2", "172.17.0.1", "192.168.0.1", "192.168.1.1"]
    return list(dict.fromkeys(found))[:24]
"""

_TCP = """
found, why = [], []
for address in addresses():
    try:
        with socket.create_connection((address, scene["tcp_port"]), 0.25):
            found.append(f"connected to {address}")
    except OSError as error:
        why.append(error.strerror or error)
verdict(found, why)
"""

_UDP = """
why = []
for address in addresses():
    try:
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(kind, socket.SOCK_DGRAM) as udp:
            udp.settimeout(0.25)
            udp.sendto(b"x", (address, scene["udp_port"]))
        why.append("sent; the host knows whether it came")
    except OSError as error:
        why.append(error.strerror or error)
time.sleep(0.05)
verdict([], why)
"""

_DNS = """
question = bytes.fromhex("1d0c01000001000000000000") + b"\\7example\\3com\\0" + bytes.fromhex("00010001")
found, why = [], []
servers = ["127.0.0.53", "8.8.8.8", "1.1.1.1", "9.9.9.9"]
try:
    with open("/etc/resolv.conf") as file:
        servers += [line.split()[1] for line in file if line.startswith("nameserver")][:3]
except OSError:
    pass
for server in dict.fromkeys(servers):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.settimeout(0.4)
            udp.sendto(question, (server, 53))
            if udp.recv(512)[:2] == question[:2]:
                found.append(f"{server} answered")
    except OSError as error:
        why.append(error.strerror or error)
    try:
        with socket.create_connection((server, 53), 0.4):
            found.append(f"connected to {server} by TCP")
    except OSError as error:
        why.append(error.strerror or error)
verdict(found, why)
"""

_UNIX = """
why = []
def tries():
    # a socket of one's own, and one half of a pair, which needs no call that makes single sockets
    yield "socket", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    yield "pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]
for kind, make in tries():
    try:
        with make() as udp:
            udp.sendto(b"x", WHERE)
        why.append(f"{kind}: sent; the host knows whether it came")
    except OSError as error:
        why.append(f"{kind}: {error.strerror}")
time.sleep(0.05)
verdict([], why)
"""
_ABSTRACT = 'import socket\nWHERE = bytes(scene["abstract_name_bytes"])\n'
_FILE = 'import socket\nWHERE = scene["socket_file"]\n'

_FAMILY = """
import fcntl, socket
def known():
    # does this kernel have the family at all? The list names those that were ever used or built in
    try:
        with open("/proc/net/protocols") as file:
            return any(line.split()[0] == PROTOCOL for line in file)
    except OSError:
        return True
try:
    made = socket.socket(ARGUMENTS)
    if PROTOCOL == "NETLINK":
        made.bind((0, 0))
    print("ESCAPED has a socket of", made.family)
    made.close()
except OSError as error:
    unknown = error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT) and not known()
    print(f"NOT RUN {error.strerror}: this kernel names no {PROTOCOL}" if unknown else f"HELD {error}")
"""
_FAMILIES = {
    "raw-icmp": ("a raw ICMP socket", "RAW", "(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)"),
    "ping": ("an ICMP socket for users", "PING", "(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)"),
    "packet": ("a packet socket", "PACKET", "(socket.AF_PACKET, socket.SOCK_RAW, 0x0300)"),
    "netlink": ("a netlink socket", "NETLINK", "(socket.AF_NETLINK, socket.SOCK_RAW, 0)"),
    "vsock": ("a socket to the machine below this one", "AF_VSOCK", "(socket.AF_VSOCK, socket.SOCK_STREAM)"),
    "alg": ("the kernel's ciphers", "ALG", "(socket.AF_ALG, socket.SOCK_SEQPACKET, 0)"),
}

_BIND = """
import socket
found, why = [], []
for kind, address in ((socket.SOCK_STREAM, scene["tcp_port"]), (socket.SOCK_DGRAM, scene["udp_port"])):
    try:
        with socket.socket(socket.AF_INET, kind) as mine:
            mine.bind(("127.0.0.1", address))
        why.append("bound a port that the host uses: another network")
    except OSError as error:
        (found if error.errno == errno.EADDRINUSE else why).append(error.strerror)
verdict([f"shares the host's network: {text}" for text in found], why)
"""

_TABLES = """
found, why = [], ["the host's ports are not in sight"]
for table, port in (("tcp", scene["tcp_port"]), ("udp", scene["udp_port"]), ("unix", scene["socket_file"])):
    for path in (f"/proc/net/{table}", f"/proc/self/net/{table}", f"/proc/thread-self/net/{table}"):
        try:
            with open(path) as file:
                text = file.read()
        except OSError as error:
            why.append(error.strerror)
            continue
        if (f":{port:04X} 00000000:0000" if table != "unix" else port) in text:
            found.append(f"{path} shows the host's sockets")
verdict(found, why)
"""

FAMILY: tuple[Attack, ...] = (
    script("tcp", "network", "connect to a server of the host", KNOW + _HOSTS + _TCP),
    script("udp", "network", "send to a server of the host", KNOW + _HOSTS + _UDP),
    script("names", "network", "ask a name server", KNOW + "import socket\n" + _DNS),
    script("abstract-socket", "network", "send to an abstract UNIX socket of the host", KNOW + _ABSTRACT + _UNIX),
    script("socket-file", "network", "send to a socket file of the host, as an agent's", KNOW + _FILE + _UNIX),
    *(
        script(name, "network", about, f"{KNOW}PROTOCOL = '{protocol}'\n" + _FAMILY.replace("ARGUMENTS", arguments[1:-1]))
        for name, (about, protocol, arguments) in _FAMILIES.items()
    ),
    script("bind", "network", "listen on the host's network", KNOW + _BIND),
    script("tables", "network", "see the host's connections", KNOW + _TABLES),
)
