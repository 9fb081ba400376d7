package main

import (
	"fmt"
	"os/exec"
	"strings"
)

// attach returns the loop device on a file, which it makes if there is none.
func attach(file string) (string, error) {
	devices, err := devices(file)
	if err != nil {
		return "", err
	}
	if len(devices) > 0 {
		return devices[0], nil
	}
	return run("losetup", "--find", "--show", file)
}

func detach(file string) error { return onEach(file, "--detach") }

// refresh tells the loop device the size of a file that has grown.
func refresh(file string) error { return onEach(file, "--set-capacity") }

func onEach(file, option string) error {
	devices, err := devices(file)
	for _, device := range devices {
		if _, err := run("losetup", option, device); err != nil {
			return err
		}
	}
	return err
}

func devices(file string) ([]string, error) {
	output, err := run("losetup", "--noheadings", "--output", "NAME", "--associated", file)
	return strings.Fields(output), err
}

// run returns what a command prints, without the white space around it.
func run(words ...string) (string, error) {
	output, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, text)
	}
	return text, nil
}
