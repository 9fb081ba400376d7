package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (c *controller) ListVolumes(_ context.Context, request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	items, err := c.after(volumes, request.StartingToken)
	if err != nil {
		return nil, err
	}
	response := &csi.ListVolumesResponse{}
	items, response.NextToken = page(items, request.MaxEntries)
	for _, volume := range items {
		size, err := volume.size()
		if err != nil {
			return nil, internal(err)
		}
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: c.describe(volume, size, nil),
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: volume.record.Attached}})
	}
	return response, nil
}

func (c *controller) ListSnapshots(_ context.Context, request *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	items, err := c.after(snapshots, request.StartingToken)
	if err != nil {
		return nil, err
	}
	var matching []*item
	for _, snapshot := range items {
		if (request.SnapshotId == "" || request.SnapshotId == snapshot.ID) &&
			(request.SourceVolumeId == "" || fromVolume+request.SourceVolumeId == snapshot.record.Source) {
			matching = append(matching, snapshot)
		}
	}
	response := &csi.ListSnapshotsResponse{}
	matching, response.NextToken = page(matching, request.MaxEntries)
	for _, snapshot := range matching {
		described, err := describeSnapshot(snapshot)
		if err != nil {
			return nil, err
		}
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: described})
	}
	return response, nil
}

// after returns the items behind a token, which is the last ID of the page before.
func (c *controller) after(kind kind, token string) ([]*item, error) {
	if token != "" && !validID.MatchString(token) {
		return nil, status.Errorf(codes.Aborted, "%q is not a token of this driver", token)
	}
	items, err := c.pool.list(kind, token)
	if err != nil {
		return nil, internal(err)
	}
	return items, nil
}

func page(items []*item, most int32) ([]*item, string) {
	if most <= 0 || len(items) <= int(most) {
		return items, ""
	}
	return items[:most], items[most-1].ID
}
