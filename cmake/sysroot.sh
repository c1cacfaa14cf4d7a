#!/bin/sh
# sysroot.sh FOLDER ARCHITECTURE PACKAGE...: fills FOLDER with the files of Debian packages, and of all that they need, of
# another architecture, from where this machine's apt gets its own. Nothing is installed: apt keeps its lists in the
# folder too, and no package runs anything. Needs apt-get, dpkg-deb and tar; no rights.
set -eu
folder=$1
architecture=$2
shift 2
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/usr/lib"
cd "$folder"
folder=$PWD
: >apt/status

apt() {
  apt-get -q -y -o Dir::State="$folder/apt" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt" \
    -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User=root \
    -o Acquire::Languages=none "$@" >&2
}

# A list that fails (one source out of several, say) isn't the end: downloading decides.
apt update || echo "sysroot.sh: apt-get update failed; going on" >&2
apt --no-install-recommends --download-only install "$@"

# /lib is in /usr, as in every Debian of today.
ln -s usr/lib lib
for package in apt/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink --no-same-owner
done
rm -rf apt usr/share/doc usr/share/man usr/share/locale
# Links to absolute paths lead out of the folder.
find . -type l -lname '/*' | while read -r link; do
  ln -sfnr ".$(readlink "$link")" "$link"
done
touch complete
