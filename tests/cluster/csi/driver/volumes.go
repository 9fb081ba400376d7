package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Parameter of a StorageClass: "true" ties a volume to the node that it is made for.
const nodeLocal = "nodeLocal"

func (c *controller) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if request.Name == "" {
		return nil, invalid("a volume needs a name")
	}
	if err := checkCapabilities(request.VolumeCapabilities); err != nil {
		return nil, err
	}
	for parameter := range request.Parameters {
		if parameter != nodeLocal {
			return nil, invalid("unknown parameter %q of the StorageClass; there is %s", parameter, nodeLocal)
		}
	}
	if len(request.MutableParameters) > 0 {
		return nil, invalid("a volume has no mutable parameters")
	}
	existing, err := c.pool.find(volumes, idOf(request.Name))
	if err == nil {
		return c.repeatedCreate(existing, request)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, internal(err)
	}
	var source *item
	if request.VolumeContentSource != nil {
		if source, err = c.lookup(sourceOf(request.VolumeContentSource)); err != nil {
			return nil, err
		}
	}
	size, err := c.newSize(request.CapacityRange, source)
	if err != nil {
		return nil, err
	}
	made := record{Name: request.Name, Created: time.Now(), Source: sourceName(request.VolumeContentSource)}
	if request.Parameters[nodeLocal] == "true" {
		if made.Node = c.nodeOf(request.AccessibilityRequirements); made.Node == "" {
			return nil, invalid("the request names no node by %s, and the parameter %s asks for one", c.topologyKey, nodeLocal)
		}
	}
	volume, err := c.pool.create(volumes, made, size, source)
	if err != nil {
		return nil, internal(err)
	}
	return &csi.CreateVolumeResponse{Volume: c.describe(volume, size, request.VolumeContentSource)}, nil
}

// repeatedCreate answers a request for a name that a volume has.
func (c *controller) repeatedCreate(volume *item, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	size, err := volume.size()
	if err != nil {
		return nil, internal(err)
	}
	wanted := request.CapacityRange
	if volume.record.Source != sourceName(request.VolumeContentSource) || size < wanted.GetRequiredBytes() ||
		wanted.GetLimitBytes() > 0 && size > wanted.GetLimitBytes() {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s exists with %d bytes of source %q", request.Name, size, volume.record.Source)
	}
	return &csi.CreateVolumeResponse{Volume: c.describe(volume, size, request.VolumeContentSource)}, nil
}

func sourceOf(content *csi.VolumeContentSource) (kind, string) {
	if snapshot := content.GetSnapshot(); snapshot != nil {
		return snapshots, snapshot.SnapshotId
	}
	return volumes, content.GetVolume().GetVolumeId()
}

// sourceName is the source of a volume as its record names it.
func sourceName(content *csi.VolumeContentSource) string {
	if content == nil {
		return ""
	}
	kind, id := sourceOf(content)
	return string(kind) + "/" + id
}

// nodeOf is the preferred node of a request, empty if it names none.
func (c *controller) nodeOf(wanted *csi.TopologyRequirement) string {
	for _, topology := range append(wanted.GetPreferred(), wanted.GetRequisite()...) {
		if node := topology.Segments[c.topologyKey]; node != "" {
			return node
		}
	}
	return ""
}

func (c *controller) describe(volume *item, size int64, source *csi.VolumeContentSource) *csi.Volume {
	described := &csi.Volume{VolumeId: volume.ID, CapacityBytes: size, ContentSource: source}
	if volume.record.Node != "" {
		described.AccessibleTopology = []*csi.Topology{{Segments: map[string]string{c.topologyKey: volume.record.Node}}}
	}
	return described
}

func (c *controller) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if request.VolumeId == "" {
		return nil, invalid("a volume ID is needed")
	}
	volume, err := c.pool.find(volumes, request.VolumeId)
	if errors.Is(err, fs.ErrNotExist) {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err != nil {
		return nil, internal(err)
	}
	if len(volume.record.Attached) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %v", volume.ID, volume.record.Attached)
	}
	// A controller that was killed may have left one.
	if err := detach(volume.data()); err != nil {
		return nil, internal(err)
	}
	if err := c.pool.remove(volume); err != nil {
		return nil, internal(err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (c *controller) ControllerExpandVolume(_ context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if request.CapacityRange == nil {
		return nil, invalid("a capacity range is needed")
	}
	volume, err := c.lookup(volumes, request.VolumeId)
	if err != nil {
		return nil, err
	}
	has, err := volume.size()
	if err != nil {
		return nil, internal(err)
	}
	size, err := c.fits(max(has, request.CapacityRange.RequiredBytes), request.CapacityRange.LimitBytes, has)
	if err != nil {
		return nil, err
	}
	if size > has {
		if err := os.Truncate(volume.data(), size); err != nil {
			return nil, internal(err)
		}
	}
	if err := refresh(volume.data()); err != nil {
		return nil, internal(err)
	}
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes: size, NodeExpansionRequired: request.VolumeCapability.GetBlock() == nil}, nil
}
