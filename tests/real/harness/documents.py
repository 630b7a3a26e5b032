"""Extracts commands and files from the documentation."""

import re
import textwrap

DEFAULT_PORTS = {"http": 8080, "grpc": 8081, "resp": 6380, "admin": 9090}


def shell_blocks(path):
    """The `sh` blocks of a page, each with its line number."""
    text = path.read_text()
    for block in re.finditer(r"^```sh\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, block.start()) + 1, block[1]


def sessions(path):
    """The commands after `$` in indented blocks, each with the output below it."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("    $ "):
            found.append((line.removeprefix("    $ "), []))
        elif found and line.startswith("    "):
            found[-1][1].append(line.strip())
        elif found and found[-1] is not None:
            found.append(None)
    return [session for session in found if session]


def indented_block(path, beginning):
    """The indented block with this beginning, without the indentation."""
    text = path.read_text()
    block = re.search(rf"^    {re.escape(beginning)}(?:.*\n(?:    .*\n|\n(?=    ))*)", text, re.M)
    assert block, f"{path} has no block that begins with {beginning!r}"
    return textwrap.dedent(block[0])


def rules_of(path):
    """The first `yaml` block of a page that is a rules file, or None."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", path.read_text(), re.M | re.S)
    return next((block for block in blocks if re.search(r"^domain:", block, re.M)), None)


def on_free_ports(text, server):
    """The text with the default addresses replaced by those of this server."""
    for protocol, port in DEFAULT_PORTS.items():
        text = re.sub(rf"(127\.0\.0\.1|localhost):{port}\b", server.addresses[protocol], text)
        text = re.sub(rf"-p {port}\b", f"-p {server.port(protocol)}", text)
        text = re.sub(rf"\bport_value: {port}\b", f"port_value: {server.port(protocol)}", text)
    return text


def with_ports(text, ports):
    """The text with ports replaced. `ports` maps old to new. One pass, so that no port is replaced twice."""
    return re.sub(r"\b\d{4,5}\b", lambda port: str(ports.get(int(port[0]), port[0])), text)


def grpcurl_by(buf):
    """A bash function that replaces grpcurl by buf, which uses reflection as well."""
    return f"""
        grpcurl() {{
            [ "$1 $2" = "-plaintext -d" ] || return 1
            '{buf}' curl --protocol grpc --http2-prior-knowledge -d "$3" "http://$4/$5"
        }}
    """
