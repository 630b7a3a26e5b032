"""Certificates for 127.0.0.1, made by openssl."""

import subprocess

from .waiting import DEADLINE_S


class Authority:
    """A certificate authority. `path` is its own certificate."""

    def __init__(self, directory, name="authority"):
        self.directory, self.name = directory, name
        self.path, self.key = directory / f"{name}.pem", directory / f"{name}.key"
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-keyout", self.key, "-out", self.path),
        )

    def sign(self, name):
        """Returns a certificate for this machine and its key."""
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        request, extensions = self.directory / f"{name}.csr", self.directory / f"{name}.ext"
        extensions.write_text("subjectAltName = IP:127.0.0.1, DNS:localhost\nbasicConstraints = CA:FALSE\n")
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", key, "-out", request),
        )
        openssl(
            *("x509", "-req", "-days", "2", "-in", request, "-CA", self.path, "-CAkey", self.key),
            *("-CAcreateserial", "-extfile", extensions, "-out", certificate),
        )
        return certificate, key


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=DEADLINE_S)
