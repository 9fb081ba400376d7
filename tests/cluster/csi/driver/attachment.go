package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Key of the publish context: the device of an attached volume, by the name that it has on every node.
const devicePath = "device"

func (c *controller) ControllerPublishVolume(_ context.Context, request *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if request.NodeId == "" {
		return nil, invalid("a node ID is needed")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.VolumeCapability}); err != nil {
		return nil, err
	}
	volume, err := c.lookup(volumes, request.VolumeId)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(c.nodes, request.NodeId) {
		return nil, status.Errorf(codes.NotFound, "there is no node %s", request.NodeId)
	}
	if volume.record.Node != "" && volume.record.Node != request.NodeId {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s belongs to node %s", volume.ID, volume.record.Node)
	}
	if !slices.Contains(volume.record.Attached, request.NodeId) {
		if len(volume.record.Attached) > 0 && !allowsManyNodes(request.VolumeCapability) {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %v", volume.ID, volume.record.Attached)
		}
		volume.record.Attached = append(volume.record.Attached, request.NodeId)
		if err := volume.save(); err != nil {
			return nil, internal(err)
		}
	}
	device, err := attach(volume.data())
	if err != nil {
		return nil, internal(err)
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{devicePath: device}}, nil
}

func (c *controller) ControllerUnpublishVolume(_ context.Context, request *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if request.VolumeId == "" {
		return nil, invalid("a volume ID is needed")
	}
	volume, err := c.pool.find(volumes, request.VolumeId)
	if errors.Is(err, fs.ErrNotExist) {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if err != nil {
		return nil, internal(err)
	}
	// Without a node ID: from all of them.
	remaining := slices.DeleteFunc(volume.record.Attached, func(node string) bool {
		return request.NodeId == "" || node == request.NodeId
	})
	if len(remaining) == 0 {
		if err := detach(volume.data()); err != nil {
			return nil, internal(err)
		}
	}
	volume.record.Attached = remaining
	if err := volume.save(); err != nil {
		return nil, internal(err)
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}
