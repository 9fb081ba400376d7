package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type node struct {
	csi.UnimplementedNodeServer
	name, topologyKey string
}

var loopDevice = regexp.MustCompile(`^/dev/loop[0-9]+$`)

func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId: n.name, AccessibleTopology: &csi.Topology{Segments: map[string]string{n.topologyKey: n.name}}}, nil
}

func (n *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return response, nil
}

func (n *node) NodeStageVolume(_ context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	device := request.PublishContext[devicePath]
	if request.VolumeId == "" || request.StagingTargetPath == "" {
		return nil, invalid("a volume ID and a staging path are needed")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.VolumeCapability}); err != nil {
		return nil, err
	}
	if !loopDevice.MatchString(device) {
		return nil, invalid("the publish context names no loop device, but %q", device)
	}
	if mount := request.VolumeCapability.GetMount(); mount != nil {
		if err := mountDevice(device, request.StagingTargetPath, mount.MountFlags); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func (n *node) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if request.VolumeId == "" || request.StagingTargetPath == "" {
		return nil, invalid("a volume ID and a staging path are needed")
	}
	if err := unmount(request.StagingTargetPath); err != nil {
		return nil, internal(err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (n *node) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if request.VolumeId == "" || request.TargetPath == "" || request.StagingTargetPath == "" {
		return nil, invalid("a volume ID, a staging path and a target path are needed")
	}
	if err := checkCapabilities([]*csi.VolumeCapability{request.VolumeCapability}); err != nil {
		return nil, err
	}
	source := request.StagingTargetPath
	readOnly := request.Readonly ||
		request.VolumeCapability.AccessMode.Mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY ||
		request.VolumeCapability.AccessMode.Mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	var err error
	if request.VolumeCapability.GetBlock() != nil {
		if source = request.PublishContext[devicePath]; !loopDevice.MatchString(source) {
			return nil, invalid("the publish context names no loop device, but %q", source)
		}
		err = makeFile(request.TargetPath)
	} else {
		err = os.MkdirAll(request.TargetPath, 0o750)
	}
	if err == nil {
		err = bind(source, request.TargetPath, readOnly)
	}
	if err != nil {
		return nil, internal(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// The folder is empty once it is not a mount: a full one is not ours to remove.
func (n *node) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if request.VolumeId == "" || request.TargetPath == "" {
		return nil, invalid("a volume ID and a target path are needed")
	}
	err := unmount(request.TargetPath)
	if err == nil {
		err = os.Remove(request.TargetPath)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, internal(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (n *node) NodeExpandVolume(_ context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	info, err := volumeAt(request.VolumeId, request.VolumePath)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if err := growFileSystem(request.VolumePath); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: request.CapacityRange.GetRequiredBytes()}, nil
}

func (n *node) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	info, err := volumeAt(request.VolumeId, request.VolumePath)
	if err != nil {
		return nil, err
	}
	usage, err := usageOf(request.VolumePath, info)
	if err != nil {
		return nil, internal(err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
}

func volumeAt(id, path string) (os.FileInfo, error) {
	if id == "" || path == "" {
		return nil, invalid("a volume ID and a path are needed")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "volume %s is not at %s: %v", id, path, err)
	}
	return info, nil
}
