# shellcheck shell=bash
# To be sourced by the recipes: packages of Debian's, from wherever this machine's own apt gets them.

# Where this machine's own apt gets its packages from; those of Debian only.
sources() {
    local file
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        if [[ -s $file ]] && grep -qi debian "$file"; then
            cat "$file"
            echo
        fi
    done
}

# Writes a tar of the files of packages and of what they depend on; nothing is installed and none of their scripts runs.
# Usage: unpack TAR ARCHITECTURE PACKAGE,PACKAGE,... [RELEASE, where it must be a newer one than bookworm]
unpack() {
    sources | sed "s/\bbookworm\b/${4:-bookworm}/g" | mmdebstrap --variant=extract --architectures="$2" --include="$3" --format=tar \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"' '' "$1" -
}
