"""The example systemd unit."""

import subprocess

import pytest

# The exposure that systemd-analyze computes, times ten: 0 is best, 100 is worst.
EXPOSURE_MAX = 20
SETTINGS = ["MemoryMax", "SystemCallFilter", "RestrictAddressFamilies", "NoNewPrivileges", "ProtectSystem"]


@pytest.fixture
def unit(root):
    return root / "examples/server/tidegate.service"


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, check=False)


def test_the_unit_is_valid_and_restricted(unit, tmp_path, binary):
    copy = tmp_path / "tidegate.service"
    copy.write_text(unit.read_text().replace("/usr/local/bin/tidegate", str(binary)))
    verified = analyze("verify", "--man=no", copy)
    assert (verified.returncode, verified.stderr) == (0, "")
    exposure = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", copy)
    assert exposure.returncode == 0, exposure.stdout + exposure.stderr
    names = [line.split("=")[0] for line in unit.read_text().splitlines()]
    assert [name for name in SETTINGS if name not in names] == []


def test_the_document_shows_the_unit(root, unit):
    shown = "".join(f"    {line}" if line.strip() else line for line in unit.read_text().splitlines(keepends=True))
    assert shown in (root / "docs/server.md").read_text()
