"""Commands in the documentation, run as they are but for the ports.

A block marked as `sh` is run by bash, all blocks of a page in their order against one server with the rules that the
page itself shows in its first block marked as `yaml`, or else the example that the server starts with.
"""

import re

import pytest
from harness.documents import rules_of, shell_blocks
from harness.tidegate import Tidegate

# The page, and at least how many blocks it has: one that is not found must not pass for one that works.
PAGES = [("docs/http.md", 3)]

DEFAULT_PORTS = {"http": 8080, "grpc": 8081, "resp": 6380, "admin": 9090}


def on_free_ports(text, server):
    for protocol, port in DEFAULT_PORTS.items():
        text = re.sub(rf"(127\.0\.0\.1|localhost):{port}\b", server.addresses[protocol], text)
        text = re.sub(rf"-p {port}\b", f"-p {server.port(protocol)}", text)
    return text


@pytest.mark.parametrize(("page", "least"), PAGES, ids=[page for page, _ in PAGES])
def test_commands_can_be_copied(root, binary, tmp_path, stopping, run, page, least):
    path = root / page
    server = Tidegate(binary, tmp_path, rules_of(path))
    stopping.append(server)
    blocks = list(shell_blocks(path))
    assert len(blocks) >= least
    for line, block in blocks:
        shell = on_free_ports(block, server)
        ended = run("bash", "-euo", "pipefail", "-c", shell, code=None, cwd=tmp_path)
        assert ended.returncode == 0, f"{page}:{line}\n{shell}\n{ended.stdout}\n{ended.stderr}"
        # curl says so itself only if it is asked to; a mistake in a command is one all the same.
        assert not re.search(r'"status": ?(400|404|405|415|500)', ended.stdout), f"{page}:{line}\n{ended.stdout}"
