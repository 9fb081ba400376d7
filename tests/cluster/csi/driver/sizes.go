package main

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	sizeStep    = int64(1) << 20
	leastSize   = int64(16) << 20 // of an XFS
	defaultSize = int64(1) << 30
)

// newSize is the size of a volume of which the request may leave both bounds away.
func (c *controller) newSize(wanted *csi.CapacityRange, source *item) (int64, error) {
	size := wanted.GetRequiredBytes()
	if source != nil {
		least, err := source.size()
		if err != nil {
			return 0, internal(err)
		}
		if size > 0 && size < least {
			return 0, status.Errorf(codes.OutOfRange, "%d bytes are less than the %d bytes of the source", size, least)
		}
		size = max(size, least)
	}
	if size == 0 {
		size = defaultSize
	}
	return c.fits(size, wanted.GetLimitBytes(), 0)
}

// fits rounds a size up, and refuses it if the pool has no room for it. An existing volume has `has` bytes already.
func (c *controller) fits(size, limit, has int64) (int64, error) {
	size = max(leastSize, (size+sizeStep-1)/sizeStep*sizeStep)
	if limit > 0 && size > limit {
		return 0, status.Errorf(codes.OutOfRange, "sizes are multiples of %d from %d on, and %d is above the limit %d", sizeStep, leastSize, size, limit)
	}
	available, err := c.pool.available()
	if err != nil {
		return 0, internal(err)
	}
	if size-has > available {
		return 0, status.Errorf(codes.ResourceExhausted, "the pool has %d bytes available, and %d more are asked for", available, size-has)
	}
	return size, nil
}
