package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
)

// mountDevice mounts the file system of a device, which it makes on a blank one. A repeated request finishes what the
// first one left.
func mountDevice(device, path string, options []string) error {
	mounted, err := isMount(path)
	if err == nil && !mounted {
		err = mountNew(device, path, options)
	}
	if err != nil {
		return err
	}
	// A copy may be on a larger volume than its source.
	return growFileSystem(path)
}

func mountNew(device, path string, options []string) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	blank, err := isBlank(device)
	if err != nil {
		return err
	}
	if blank {
		// A small file system is called unsupported. The device is blank: there is nothing to discard (-K).
		if _, err := run("mkfs."+fileSystem, "-q", "-K", "-f", "--unsupported", device); err != nil {
			return err
		}
	}
	// A copy has the UUID of its source, which may be mounted, too.
	options = append([]string{"nouuid"}, options...)
	_, err = run("mount", "--types", fileSystem, "--options", strings.Join(options, ","), device, path)
	return err
}

// isBlank reads the bytes in which every file system and partition table has its mark. An XFS that was not made to the
// end, which its superblock says, is blank.
func isBlank(device string) (bool, error) {
	file, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer file.Close()
	begin := make([]byte, 64<<10)
	if _, err := io.ReadFull(file, begin); err != nil {
		return false, fmt.Errorf("%s: %w", device, err)
	}
	const inProgress = 126
	unfinished := bytes.HasPrefix(begin, []byte("XFSB")) && begin[inProgress] != 0
	return unfinished || bytes.Count(begin, []byte{0}) == len(begin), nil
}

func growFileSystem(path string) error {
	_, err := run("xfs_growfs", path)
	return err
}

func bind(source, path string, readOnly bool) error {
	if mounted, err := isMount(path); err != nil || mounted {
		return err
	}
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind mount of %s at %s: %w", source, path, err)
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("read-only bind mount at %s: %w", path, errors.Join(err, unmount(path)))
	}
	return nil
}

func unmount(path string) error {
	mounted, err := isMount(path)
	if err != nil || !mounted {
		return err
	}
	if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount of %s: %w", path, err)
	}
	return nil
}

// isMount is false for a path that does not exist.
func isMount(path string) (bool, error) {
	var found unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &found)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("statx %s: %w", path, err)
	}
	return found.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

func usageOf(path string, info os.FileInfo) ([]*csi.VolumeUsage, error) {
	if !info.IsDir() {
		size, err := deviceSize(path)
		return []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: size}}, err
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(path, &disk); err != nil {
		return nil, fmt.Errorf("statfs %s: %w", path, err)
	}
	block := disk.Bsize
	return []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: int64(disk.Blocks) * block,
			Available: int64(disk.Bavail) * block, Used: int64(disk.Blocks-disk.Bfree) * block},
		{Unit: csi.VolumeUsage_INODES, Total: int64(disk.Files),
			Available: int64(disk.Ffree), Used: int64(disk.Files - disk.Ffree)},
	}, nil
}

func deviceSize(path string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return file.Seek(0, io.SeekEnd)
}
