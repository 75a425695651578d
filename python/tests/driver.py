"""Drives the package for `make conformance`: the lines of docs/conformance.md. With `--tasks` its waiters are tasks of
asyncio, otherwise threads."""
