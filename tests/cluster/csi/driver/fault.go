package main

import (
	"errors"
	"io/fs"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func invalid(format string, words ...any) error {
	return status.Errorf(codes.InvalidArgument, format, words...)
}

func internal(err error) error { return status.Error(codes.Internal, err.Error()) }

// lookup finds an item that a request depends on.
func (c *controller) lookup(kind kind, id string) (*item, error) {
	if id == "" {
		return nil, invalid("an ID of %s is needed", kind)
	}
	found, err := c.pool.find(kind, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "there is nothing %q in %s", id, kind)
	}
	if err != nil {
		return nil, internal(err)
	}
	return found, nil
}
