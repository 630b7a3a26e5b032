"""Commands in documentation, taken out to be run."""

import re


def shell_blocks(path):
    """The blocks of a page that are marked as `sh`, each with its line."""
    text = path.read_text()
    for block in re.finditer(r"^```sh\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, block.start()) + 1, block[1]


def rules_of(path):
    """The page's first block marked as `yaml` that is a rules file; None if it has none."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", path.read_text(), re.M | re.S)
    return next((block for block in blocks if re.search(r"^domain:", block, re.M)), None)
