#!/usr/bin/env python3
"""Lets the Python package in a copy of the repository say where it comes from, as PyPI shows it: `publishable.py COPY`.

The address stands in one place, `repository` in Cargo.toml. From it come the package's URLs, and the links of its README,
which are relative in the repository and would lead nowhere on PyPI.
"""

import pathlib
import posixpath
import re
import sys

copy = pathlib.Path(sys.argv[1])
manifest = (copy / "Cargo.toml").read_text()
repository, version = (re.search(f'^{key} = "(.*)"$', manifest, re.M)[1] for key in ("repository", "version"))
files = f"{repository}/blob/v{version}"


def absolute(link):
    path, mark, part = link[1].partition("#")
    if not path or "://" in path:
        return link[0]
    path = posixpath.normpath(posixpath.join("python", path))
    if not (copy / path).exists():
        sys.exit(f"publishable: python/README.md has a link to {link[1]}, which is not in the repository")
    return f"]({files}/{path}{mark}{part})"


readme = copy / "python/README.md"
readme.write_text(re.sub(r"\]\(([^)\s]+)\)", absolute, readme.read_text()))

project = copy / "python/pyproject.toml"
urls = f"""
[project.urls]
Repository = "{repository}"
Documentation = "{files}/python/README.md"
Changelog = "{files}/CHANGELOG.md"
Issues = "{repository}/issues"
"""
project.write_text(project.read_text() + urls)
