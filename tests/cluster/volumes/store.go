package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	core "k8s.io/api/core/v1"
)

// A store is a folder with one folder or file per volume. Everything may be done twice.
type store struct {
	folder string // on this machine
	inNode string // the same, as nodes see it
}

// make makes a volume, and says where nodes find it.
func (s store) make(name string, mode core.PersistentVolumeMode, size int64) (string, error) {
	path := filepath.Join(s.folder, name)
	if mode == core.PersistentVolumeFilesystem {
		if err := os.MkdirAll(path, 0o777); err != nil {
			return "", err
		}
		// Whoever the pod runs as may write; the umask would say otherwise.
		return filepath.Join(s.inNode, name), os.Chmod(path, 0o777)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		return "", err
	}
	devices, err := devices(path)
	if err != nil || len(devices) > 0 {
		return strings.Join(devices, " "), err
	}
	return losetup("--find", "--show", path)
}

// grow never shrinks, and leaves a folder as it is: nothing limits it.
func (s store) grow(name string, mode core.PersistentVolumeMode, size int64) error {
	if mode == core.PersistentVolumeFilesystem {
		return nil
	}
	path := filepath.Join(s.folder, name)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() < size {
		if err := os.Truncate(path, size); err != nil {
			return err
		}
	}
	return each(path, "--set-capacity")
}

func (s store) remove(name string) error {
	path := filepath.Join(s.folder, name)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		if err := each(path, "--detach"); err != nil {
			return err
		}
	}
	return os.RemoveAll(path)
}

func each(path, option string) error {
	devices, err := devices(path)
	for _, device := range devices {
		if _, err := losetup(option, device); err != nil {
			return err
		}
	}
	return err
}

// devices are the loop devices on a file.
func devices(path string) ([]string, error) {
	said, err := losetup("--noheadings", "--output", "NAME", "--associated", path)
	return strings.Fields(said), err
}

func losetup(words ...string) (string, error) {
	said, err := exec.Command("losetup", words...).Output()
	if failed, is := err.(*exec.ExitError); is {
		err = fmt.Errorf("losetup %s: %s", strings.Join(words, " "), strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(said)), err
}
