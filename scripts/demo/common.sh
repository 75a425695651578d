# What the demo's driver and its jobs share; plain POSIX sh, read with `.`.

# Milliseconds since 1970. `date` knows fractions of a second on Linux only; a Mac has perl.
case $(date +%3N) in
[0-9][0-9][0-9]) now_ms() { date +%s%3N; } ;;
*) now_ms() { perl -MTime::HiRes=time -e 'printf "%d", time * 1000'; } ;;
esac

# The checksum of what it reads.
if command -v sha256sum >/dev/null; then
    sha256() { sha256sum | cut -c 1-64; }
else
    sha256() { shasum -a 256 | cut -c 1-64; }
fi

# chain PREVIOUS NUMBER LABEL TOKEN ARCHIVE: what ties an entry of the ledger to the one before it.
chain() { printf '%s' "$*" | sha256; }
