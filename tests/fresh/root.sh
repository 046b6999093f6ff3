# For the scripts beside it: a root of a distribution that has next to nothing, and commands inside it. Wants root, debootstrap and a mirror.

fail() { printf 'fresh: %s\n' "$*" >&2; exit 2; }

# Sets `root` to a new folder, unless it is set, and fills it.
make_root() { # suite, packages
  local suite=$1 packages=$2 mirror components script=sid
  case "$suite" in
    bookworm|trixie) mirror=http://deb.debian.org/debian components=main ;;
    noble) mirror=http://archive.ubuntu.com/ubuntu components=main,universe script=gutsy ;; # as every Ubuntu since
    *) fail "suite '$suite' is none of bookworm, trixie, noble" ;;
  esac
  [ "$(id -u)" = 0 ] || fail "wants root: it makes a root file system and mounts into it"
  command -v debootstrap >/dev/null || fail "debootstrap is missing; the package debootstrap has it"
  [ -n "$root" ] || root=$(mktemp -d "/var/tmp/mc2-fresh-$suite.XXXXXX")
  mkdir -p "$root"
  chmod 755 "$root" # other users, whom tests become, must get past it
  printf '==> a bare %s in %s\n' "$suite" "$root"
  debootstrap --variant=minbase --include="$packages" --components="$components" "$suite" "$root" "$mirror" "$script" \
    >"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; fail "debootstrap failed; whole output in $root.log"; }
  rm -f "$root.log"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  printf '127.0.0.1 localhost\n' >"$root/etc/hosts" # every installed system has it
}

# In namespaces of its own: what is mounted or started there ends with it.
inside() { # command, log
  unshare --mount --pid --fork --kill-child /bin/bash -c '
    set -e
    mount --make-rprivate /
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/dev/shm"
    exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb /bin/sh -c "cd /work && $2"
  ' inside "$root" "$1" >"$2" 2>&1
}
