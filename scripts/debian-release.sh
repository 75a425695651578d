# For scripts to source: programs of other Debian releases, for tests, without installing them.
#
# They are unpacked from Debian packages, with the libraries of their own release, by an apt whose state is a folder of
# its own: neither the system's package lists nor its packages are touched, and it takes no root. So it needs apt-get
# and dpkg-deb, Debian's keyring, and a mirror.

mirror=${FAIRLOCK_DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf '%s\n' "$*" >&2; }

# Downloads package $2 of Debian release $1 with all that it needs, and unpacks it to $3/root. Calls `cannot` with the
# reason if that fails.
unpack() {
    local release=$1 package=$2 work=$3 archive
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || cannot "this is no Debian (no apt-get)"
    [ -r "$keyring" ] || cannot "there is no $keyring (apt-get install debian-archive-keyring)"
    mkdir -p "$work"/{conf.d,preferences.d,state/lists/partial,cache/archives/partial,root}
    : >"$work/status"
    echo "deb [signed-by=$keyring] $mirror $release main" >"$work/sources.list"
    # A mirror may be older than its lists say they are good for. That would be no way to install security updates,
    # but these programs are for tests on this machine alone; signatures are verified all the same.
    cat >"$work/apt.conf" <<CONF
Dir::Etc "$work"; Dir::Etc::sourcelist "$work/sources.list"; Dir::Etc::sourceparts "-"; Dir::Etc::parts "$work/conf.d";
Dir::Etc::preferencesparts "$work/preferences.d"; Dir::State "$work/state"; Dir::State::status "$work/status";
Dir::Cache "$work/cache"; APT::Sandbox::User ""; APT::Install-Recommends "false"; Acquire::Languages "none";
Acquire::Check-Valid-Until "false"; Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false"; Debug::NoLocking "true";
CONF
    APT_CONFIG=$work/apt.conf apt-get -qq update >&2 || cannot "apt-get update failed for $release at $mirror"
    APT_CONFIG=$work/apt.conf apt-get -qq -y --download-only install "$package" >&2 ||
        cannot "$package of $release could not be downloaded from $mirror"
    for archive in "$work"/cache/archives/*.deb; do dpkg-deb -x "$archive" "$work/root"; done
}

# The loader of the release in root $1, by its real name: the usual one is an absolute link, to the loader of this
# machine. Its libraries are in the folders of the same name in lib and usr/lib.
loader_of() {
    find "$1" -type f -path '*/lib/*-linux-gnu*/*' \( -name 'ld-linux*.so.*' -o -name 'ld-[0-9]*.so' \) | head -n 1
}
