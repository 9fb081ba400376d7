package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const fromVolume = string(volumes) + "/"

func (c *controller) CreateSnapshot(_ context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.snapshots {
		return nil, status.Error(codes.Unimplemented, "this driver makes no snapshots")
	}
	if request.Name == "" || request.SourceVolumeId == "" {
		return nil, invalid("a snapshot needs a name and a source volume ID")
	}
	source := fromVolume + request.SourceVolumeId
	snapshot, err := c.pool.find(snapshots, idOf(request.Name))
	switch {
	case err == nil && snapshot.record.Source != source:
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s exists with the source %s", request.Name, snapshot.record.Source)
	case errors.Is(err, fs.ErrNotExist):
		if snapshot, err = c.takeSnapshot(request.Name, request.SourceVolumeId); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, internal(err)
	}
	described, err := describeSnapshot(snapshot)
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: described}, nil
}

func (c *controller) takeSnapshot(name, volumeID string) (*item, error) {
	volume, err := c.lookup(volumes, volumeID)
	if err != nil {
		return nil, err
	}
	size, err := volume.size()
	if err != nil {
		return nil, internal(err)
	}
	if _, err := c.fits(size, 0, 0); err != nil {
		return nil, err
	}
	taken, err := c.pool.create(snapshots, record{Name: name, Created: time.Now(), Source: fromVolume + volumeID}, size, volume)
	if err != nil {
		return nil, internal(err)
	}
	return taken, nil
}

func describeSnapshot(snapshot *item) (*csi.Snapshot, error) {
	size, err := snapshot.size()
	if err != nil {
		return nil, internal(err)
	}
	return &csi.Snapshot{
		SnapshotId: snapshot.ID, SourceVolumeId: strings.TrimPrefix(snapshot.record.Source, fromVolume),
		CreationTime: timestamppb.New(snapshot.record.Created), ReadyToUse: true, SizeBytes: size}, nil
}

func (c *controller) DeleteSnapshot(_ context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if request.SnapshotId == "" {
		return nil, invalid("a snapshot ID is needed")
	}
	snapshot, err := c.pool.find(snapshots, request.SnapshotId)
	if errors.Is(err, fs.ErrNotExist) {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	if err != nil {
		return nil, internal(err)
	}
	if err := c.pool.remove(snapshot); err != nil {
		return nil, internal(err)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}
