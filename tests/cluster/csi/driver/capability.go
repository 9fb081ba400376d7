package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// XFS and not ext4, which grows only for a process with CAP_SYS_RESOURCE: root inside some sandboxes is without it.
const fileSystem = "xfs"

// checkCapabilities refuses what a volume cannot be.
func checkCapabilities(capabilities []*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return invalid("a volume capability is needed")
	}
	for _, capability := range capabilities {
		if capability.GetBlock() == nil && capability.GetMount() == nil {
			return invalid("a volume capability with an access type is needed")
		}
		if fs := capability.GetMount().GetFsType(); fs != "" && fs != fileSystem {
			return invalid("the file system of a volume is %s, not %s", fileSystem, fs)
		}
		if capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_UNKNOWN {
			return invalid("a volume capability with an access mode is needed")
		}
	}
	return nil
}

// allowsManyNodes is true for a file system, too: nodes share the kernel, so both mount the same one.
func allowsManyNodes(capability *csi.VolumeCapability) bool {
	switch capability.AccessMode.Mode {
	case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return true
	}
	return false
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(request.VolumeCapabilities) == 0 {
		return nil, invalid("a volume capability is needed")
	}
	if _, err := c.lookup(volumes, request.VolumeId); err != nil {
		return nil, err
	}
	if err := checkCapabilities(request.VolumeCapabilities); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: request.VolumeContext, VolumeCapabilities: request.VolumeCapabilities, Parameters: request.Parameters}}, nil
}
