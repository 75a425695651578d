#!/usr/bin/env python3
"""An OCI image of one static program, written without a daemon.

`oci.py PROGRAM VERSION IMAGE.tar` writes an image layout as an archive (`skopeo copy oci-archive:IMAGE.tar docker://…`
pushes it, `podman load` and `docker load` read it): one layer with /usr/bin/fairlock and the licences. The same program
gives the same digests. `oci.py --check IMAGE.tar` reads such an archive as a registry would: each blob that a
descriptor names is there, has its size and its digest, and is named; and the program in it runs.
"""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KIND = "application/vnd.oci.image."
ARCHITECTURES = {62: "amd64", 183: "arm64"}  # `e_machine` of an ELF file


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def archive(files):
    """A tar archive of files by name (data and mode), the same for the same files."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        folders = {name[:end] for name in files for end, char in enumerate(name) if char == "/"}
        for name in sorted(folders | set(files)):
            entry = tarfile.TarInfo(name)
            data, entry.mode = files.get(name, (b"", 0o755))
            entry.type, entry.size = (tarfile.REGTYPE, len(data)) if name in files else (tarfile.DIRTYPE, 0)
            tar.addfile(entry, io.BytesIO(data))
    return written.getvalue()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def build(program, version, image):
    binary = read(program)
    licences = b"\n".join(read(f"{ROOT}/LICENSE-{name}") for name in ("MIT", "APACHE"))
    layer = archive({"usr/bin/fairlock": (binary, 0o755), "usr/share/doc/fairlock/copyright": (licences, 0o644)})
    blobs = {}

    def blob(kind, data):
        data = data if isinstance(data, bytes) else json.dumps(data, sort_keys=True).encode()
        blobs["blobs/sha256/" + digest(data)[7:]] = (data, 0o644)
        return {"mediaType": KIND + kind, "digest": digest(data), "size": len(data)}

    platform = {"architecture": ARCHITECTURES[int.from_bytes(binary[18:20], "little")], "os": "linux"}
    labels = {
        "org.opencontainers.image.title": "fairlock",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    }
    config = {
        **platform,
        "config": {"Entrypoint": ["/usr/bin/fairlock"], "Env": ["PATH=/usr/bin"], "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": KIND + "manifest.v1+json",
        "config": blob("config.v1+json", config),
        "layers": [blob("layer.v1.tar+gzip", gzip.compress(layer, mtime=0))],
        "annotations": labels,
    }
    named = {**blob("manifest.v1+json", manifest), "platform": platform}
    named["annotations"] = {"org.opencontainers.image.ref.name": version}
    index = {"schemaVersion": 2, "mediaType": KIND + "index.v1+json", "manifests": [named]}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
    with open(image, "wb") as file:
        file.write(archive({**{name: (data, 0o644) for name, data in files.items()}, **blobs}))
    print(f"{image}: {named['digest']}, {platform['architecture']}")


def check(image):
    with tarfile.open(image) as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
    assert json.loads(files.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}, "no layout of version 1.0.0"

    def named(descriptor):
        data = files.pop("blobs/sha256/" + descriptor["digest"].removeprefix("sha256:"))
        assert digest(data) == descriptor["digest"], f"another digest than {descriptor['digest']}"
        assert len(data) == descriptor["size"], f"another size than that of {descriptor['digest']}"
        return data

    [descriptor] = json.loads(files.pop("index.json"))["manifests"]
    manifest = json.loads(named(descriptor))
    config = json.loads(named(manifest["config"]))
    layers = [gzip.decompress(named(layer)) for layer in manifest["layers"]]
    assert [digest(layer) for layer in layers] == config["rootfs"]["diff_ids"], "other layers than the config names"
    assert not files, f"nothing names {sorted(files)}"
    assert config["architecture"] == descriptor["platform"]["architecture"]
    with tempfile.TemporaryDirectory() as root:
        for layer in layers:
            tarfile.open(fileobj=io.BytesIO(layer)).extractall(root)
        entry = root + config["config"]["Entrypoint"][0]
        said = subprocess.run([entry, "--version"], env={}, check=True, capture_output=True, text=True).stdout
    version = manifest["annotations"]["org.opencontainers.image.version"]
    assert said.split("\n")[0] == f"fairlock {version}", said
    print(f"{image}: each digest is right, and its program says: fairlock {version}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        check(sys.argv[2])
    elif len(sys.argv) == 4:
        build(*sys.argv[1:])
    else:
        sys.exit(__doc__)
