package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// An item is a volume or a snapshot.
type item struct {
	ID     string
	record record
	folder string
}

type record struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	// KIND/ID of the item that the content is a copy of.
	Source string `json:"source,omitempty"`
	// The only node that may use the volume; empty: all nodes.
	Node string `json:"node,omitempty"`
	// Nodes that the volume is attached to.
	Attached []string `json:"attached,omitempty"`
}

func (i *item) data() string       { return filepath.Join(i.folder, "data") }
func (i *item) recordFile() string { return filepath.Join(i.folder, "record.json") }

func (i *item) size() (int64, error) {
	info, err := os.Stat(i.data())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (i *item) fill(size int64, source *item) error {
	file, err := os.OpenFile(i.data(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if source != nil {
		from, err := os.Open(source.data())
		if err != nil {
			return err
		}
		defer from.Close()
		if err := unix.IoctlFileClone(int(file.Fd()), int(from.Fd())); err != nil {
			return fmt.Errorf("reflink of %s: %w", source.data(), err)
		}
	}
	return file.Truncate(size)
}

func (i *item) save() error {
	content, err := json.Marshal(i.record)
	if err != nil {
		return err
	}
	unfinished := i.recordFile() + ".new"
	if err := os.WriteFile(unfinished, content, 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, i.recordFile())
}
