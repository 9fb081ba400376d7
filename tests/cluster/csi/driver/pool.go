package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// A pool is the state of the controller:
//
//	volumes/ID/{data,record.json}      the ID comes from the name in the request, so that a repeated request finds
//	snapshots/ID/{data,record.json}    what the first one made
//	building/                          items before they are whole, and those that are being removed
type pool struct{ folder string }

type kind string

const (
	volumes   kind = "volumes"
	snapshots kind = "snapshots"
	building  kind = "building"
)

var validID = regexp.MustCompile(`^[0-9a-f]{32}$`)

func openPool(folder string) (*pool, error) {
	p := &pool{folder}
	if err := os.RemoveAll(p.path(building, "")); err != nil {
		return nil, err
	}
	for _, kind := range []kind{volumes, snapshots, building} {
		if err := os.MkdirAll(p.path(kind, ""), 0o700); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *pool) path(kind kind, id string) string { return filepath.Join(p.folder, string(kind), id) }

func idOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// find fails with fs.ErrNotExist for an unknown ID, and for a text that is not an ID at all.
func (p *pool) find(kind kind, id string) (*item, error) {
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("%q is not an ID: %w", id, fs.ErrNotExist)
	}
	found := &item{ID: id, folder: p.path(kind, id)}
	content, err := os.ReadFile(found.recordFile())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &found.record); err != nil {
		return nil, fmt.Errorf("%s: %w", found.recordFile(), err)
	}
	return found, nil
}

// list returns the items in the order of their IDs, those after the ID `after` alone.
func (p *pool) list(kind kind, after string) ([]*item, error) {
	entries, err := os.ReadDir(p.path(kind, ""))
	if err != nil {
		return nil, err
	}
	var items []*item
	for _, entry := range entries {
		if entry.Name() <= after {
			continue
		}
		found, err := p.find(kind, entry.Name())
		if err != nil {
			return nil, err
		}
		items = append(items, found)
	}
	return items, nil
}

// create makes an item of `size` bytes: zeros, or a copy of `source` with zeros behind it.
func (p *pool) create(kind kind, record record, size int64, source *item) (*item, error) {
	id := idOf(record.Name)
	made := &item{ID: id, record: record, folder: p.path(building, id)}
	if err := os.RemoveAll(made.folder); err != nil {
		return nil, err
	}
	if err := os.Mkdir(made.folder, 0o700); err != nil {
		return nil, err
	}
	if err := made.fill(size, source); err != nil {
		return nil, err
	}
	if err := made.save(); err != nil {
		return nil, err
	}
	folder := p.path(kind, id)
	if err := os.Rename(made.folder, folder); err != nil {
		return nil, err
	}
	made.folder = folder
	return made, nil
}

// remove takes the name away first, so that no half of an item is found under it.
func (p *pool) remove(gone *item) error {
	folder := p.path(building, gone.ID)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.Rename(gone.folder, folder); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}

// available is what the volumes and snapshots leave of the pool when each of them is full.
func (p *pool) available() (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(p.folder, &disk); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", p.folder, err)
	}
	left := int64(disk.Blocks) * disk.Bsize
	for _, kind := range []kind{volumes, snapshots} {
		items, err := p.list(kind, "")
		if err != nil {
			return 0, err
		}
		for _, item := range items {
			size, err := item.size()
			if err != nil {
				return 0, err
			}
			left -= size
		}
	}
	return max(left, 0), nil
}
