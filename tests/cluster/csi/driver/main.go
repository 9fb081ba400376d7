// Command driver is a CSI driver for the nodes of one host. A volume is a file in a pool, a folder on a file system with
// reflinks: a snapshot or a clone is made in an instant and shares its blocks with the source. A loop device on the file
// is the attached volume. All nodes see the device, since they share the kernel.
//
//	controller, on the host             node, one process a node
//	CreateVolume      file
//	ControllerPublish loop device ───►  NodeStage    XFS, mounted (volumeMode: Filesystem)
//	                                    NodePublish  bind mount of that, or of the device (Block)
//	CreateSnapshot    reflink
//	ControllerExpand  longer file ───►  NodeExpand   XFS grows
//
// The controller keeps its state in the pool and may be killed at any time. With --pool the process serves the
// controller, with --node the node and the registration that the kubelet asks for; csi-sanity wants both in one.
package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log"
	"net"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func main() {
	name := flag.String("name", "csi.coracle.example", "of the driver, as StorageClasses call it")
	endpoint := flag.String("endpoint", "", "path of the socket")
	folder := flag.String("pool", "", "folder of the pool: serve the controller")
	nodes := flag.String("nodes", "", "names of the nodes that the controller attaches volumes to, with commas between")
	nodeName := flag.String("node", "", "name of this node: serve the node")
	snapshots := flag.Bool("snapshots", true, "the controller makes snapshots")
	flag.Parse()
	if *endpoint == "" || *folder == "" && *nodeName == "" || flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}

	server := grpc.NewServer(grpc.UnaryInterceptor(logCalls))
	csi.RegisterIdentityServer(server, &identity{name: *name, controller: *folder != ""})
	if *folder != "" {
		pool, err := openPool(*folder)
		if err != nil {
			log.Fatalf("pool %s: %v", *folder, err)
		}
		csi.RegisterControllerServer(server, &controller{
			pool: pool, nodes: strings.Split(*nodes, ","), topologyKey: topologyKey(*name), snapshots: *snapshots})
	}
	if *nodeName != "" {
		csi.RegisterNodeServer(server, &node{name: *nodeName, topologyKey: topologyKey(*name)})
		registration.RegisterRegistrationServer(server, &registrar{name: *name, endpoint: *endpoint})
	}

	// A process that was killed leaves its socket.
	if err := os.Remove(*endpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", *endpoint)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s serves %s", *name, *endpoint)
	log.Fatal(server.Serve(listener))
}

// topologyKey is the label by which the kubelet says on the Node object where a volume of one node belongs.
func topologyKey(driver string) string { return driver + "/node" }

func logCalls(ctx context.Context, request any, call *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	if err != nil {
		log.Printf("%s: %v", call.FullMethod, err)
	}
	return response, err
}
