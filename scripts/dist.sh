#!/usr/bin/env bash
# Builds what people install, into target/packages, and tries it:
#
#   dist.sh static   the program for any Linux of this architecture, with completions and man pages, as an archive
#   dist.sh deb      a Debian package of the same
#   dist.sh          both
#
# Needs the target of rustup, a C compiler for musl (apt-get install musl-tools), and for the package dpkg-deb.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=$(uname -m)
target="$arch-unknown-linux-musl"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
dist=target/packages
root="$dist/root"

build() {
    rustup target list --installed 2>/dev/null | grep -qx "$target" || rustup target add "$target"
    command -v musl-gcc >/dev/null || { echo "a C compiler for musl is missing: apt-get install musl-tools" >&2; exit 1; }
    cargo build --profile dist --package fairlock-cli --target "$target"
    rm -rf "$root" && mkdir -p "$root/usr/bin" "$root/usr/share/man/man1" "$root/usr/share/doc/fairlock"
    local share="$root/usr/share"
    install -m 755 "target/$target/dist/fairlock" "$root/usr/bin/"
    "$root/usr/bin/fairlock" man-pages "$share/man/man1"
    gzip -9n "$share/man/man1"/*.1
    mkdir -p "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
    "$root/usr/bin/fairlock" completions bash >"$share/bash-completion/completions/fairlock"
    "$root/usr/bin/fairlock" completions zsh >"$share/zsh/vendor-completions/_fairlock"
    "$root/usr/bin/fairlock" completions fish >"$share/fish/vendor_completions.d/fairlock.fish"
    # The pages that helps name, and those that an operator asks for.
    install -m 644 README.md docs/command-line.md docs/operating.md docs/guide.md "$share/doc/fairlock/"
    cp -r docs/systemd "$share/doc/fairlock/"
    cat LICENSE-MIT LICENSE-APACHE >"$share/doc/fairlock/copyright"
    find "$root" -type d -exec chmod 755 {} +
    find "$root/usr/share" -type f -exec chmod 644 {} +
}

# The program needs nothing but the kernel: no library, no variable, no home.
try() {
    local program=$1 server
    if readelf -d "$program" | grep -q NEEDED; then
        echo "$program needs libraries" >&2
        exit 1
    fi
    env -i "$program" --version | grep -q musl
    server=$(./scripts/ensure-redis.sh)
    (
        folder=$(mktemp -d) && chmod 700 "$folder"
        trap 'env -i FAIRLOCK_LOCAL_DIR="$folder" "$program" local stop >/dev/null; rm -rf "$folder"' EXIT
        said=$(env -i PATH="$(dirname "$server")" FAIRLOCK_LOCAL_DIR="$folder" \
            "$program" --local run a-lock -- /bin/sh -c 'echo "$FAIRLOCK_NAME is held"')
        [ "$said" = "a-lock is held" ] || { echo "$program said: $said" >&2; exit 1; }
    )
    echo "tried: $program"
}

static() {
    local name="fairlock-$version-$arch-linux"
    tar -C "$root/usr" --transform "s,^\.,$name," --owner=0 --group=0 --sort=name -czf "$dist/$name.tar.gz" .
    rm -rf "$dist/unpacked" && mkdir "$dist/unpacked" && tar -C "$dist/unpacked" -xzf "$dist/$name.tar.gz"
    try "$PWD/$dist/unpacked/$name/bin/fairlock"
    rm -rf "$dist/unpacked"
}

deb() {
    local debian package installed
    case "$arch" in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) debian=$arch ;; esac
    package="$dist/fairlock_$version-1_$debian.deb"
    rm -rf "$root/DEBIAN" && mkdir "$root/DEBIAN"
    cat >"$root/DEBIAN/control" <<EOF
Package: fairlock
Version: $version-1
Architecture: $debian
Maintainer: The fairlock authors <fairlock@localhost>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Suggests: redis-server (>= 6.0) | valkey-server
Section: utils
Priority: optional
Description: fair distributed locks on Redis
 Runs a command while it holds a lock. Waiters on any number of machines are
 served in the order of their arrival; a command never outlives its lease.
EOF
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
    rm -rf "$root/DEBIAN"
    # Installed as dpkg does it, into a root of its own.
    installed="$PWD/$dist/installed"
    rm -rf "$installed" && mkdir -p "$installed/var/lib/dpkg/info" "$installed/var/lib/dpkg/updates"
    : >"$installed/var/lib/dpkg/status"
    dpkg --root="$installed" --force-not-root --log=/dev/null -i "$package" >/dev/null
    local pages verb
    pages=$("$installed/usr/bin/fairlock" -h | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' |
        while read -r verb; do echo "share/man/man1/fairlock-$verb.1.gz"; done)
    [ "$(wc -l <<<"$pages")" -gt 10 ]
    for file in bin/fairlock share/man/man1/fairlock.1.gz $pages share/bash-completion/completions/fairlock \
        share/zsh/vendor-completions/_fairlock share/fish/vendor_completions.d/fairlock.fish \
        share/doc/fairlock/copyright share/doc/fairlock/command-line.md share/doc/fairlock/systemd/backup.timer; do
        [ -f "$installed/usr/$file" ] || { echo "$package has no usr/$file" >&2; exit 1; }
    done
    try "$installed/usr/bin/fairlock"
    dpkg --root="$installed" --force-not-root --log=/dev/null --purge fairlock >/dev/null
    [ ! -e "$installed/usr/bin/fairlock" ]
    rm -rf "$installed"
}

mkdir -p "$dist"
build
case "${1:-all}" in
    static) static ;;
    deb) deb ;;
    all) static && deb ;;
    *) echo "usage: dist.sh [static|deb]" >&2 && exit 2 ;;
esac
rm -rf "$root"
(cd "$dist" && sha256sum fairlock* >SHA256SUMS && cat SHA256SUMS)
