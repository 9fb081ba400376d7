// Lists tars as Go's archive/tar reads them, which is what unpacks layers in every cluster.
//
// Its input are tars, each behind its length (8 bytes, the highest first). For each it prints one line of JSON: the members
// up to the end or to what Go refuses. Headers for all members that follow are left out, as unpackers do.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Bytes of a member's data that are read; a hole may be endless.
const most = 1 << 20

type member struct {
	Name string `json:"name"` // in hex, as the link: either may be any bytes
	Link string `json:"link"`
	Type string `json:"type"`
	Size int64  `json:"size"`
	Uid  int    `json:"uid"`
	Gid  int    `json:"gid"`
	Mode int64  `json:"mode"`
	Sum  string `json:"sum"` // of the data, up to `most`
}

type list struct {
	Members []member `json:"members"`
	Error   string   `json:"error"`
}

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	lines := json.NewEncoder(out)
	for {
		var length uint64
		if err := binary.Read(in, binary.BigEndian, &length); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			fail(err)
		}
		archive := make([]byte, length)
		if _, err := io.ReadFull(in, archive); err != nil {
			fail(err)
		}
		if err := lines.Encode(read(archive)); err != nil {
			fail(err)
		}
	}
	if err := out.Flush(); err != nil {
		fail(err)
	}
}

func read(archive []byte) list {
	all := list{Members: []member{}}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			all.Error = err.Error()
			return all
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		sum := sha256.New()
		if _, err := io.CopyN(sum, reader, most); err != nil && !errors.Is(err, io.EOF) {
			all.Error = err.Error()
			return all
		}
		all.Members = append(all.Members, member{
			Name: hex.EncodeToString([]byte(header.Name)),
			Link: hex.EncodeToString([]byte(header.Linkname)),
			Type: string(rune(header.Typeflag)),
			Size: header.Size,
			Uid:  header.Uid,
			Gid:  header.Gid,
			Mode: header.Mode,
			Sum:  hex.EncodeToString(sum.Sum(nil)),
		})
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
