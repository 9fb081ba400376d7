// Command kube is every server of Kubernetes that the test cluster runs, in one binary: they share nearly all of their
// code, so one link takes the time of the largest. Which one it is comes from its own name (tests/cluster/build makes
// the links), or from the first argument:
//
//	kube-apiserver --help
//	kube kube-apiserver --help
//
// Only the chosen command is constructed, because each registers its feature gates and metrics when it is.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // the build's version on /metrics
)

// A program returns its exit code.
var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          command(apiserver.NewAPIServerCommand),
	"kube-controller-manager": command(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kube-proxy":              command(proxy.NewProxyCommand),
}

func command(construct func() *cobra.Command) func() int {
	return func() int { return cli.Run(construct()) }
}

func main() {
	run, found := programs[filepath.Base(os.Args[0])]
	if !found && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		run, found = programs[os.Args[0]]
	}
	if !found {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintf(os.Stderr, "kube: no program is called %q; there are %s\n", os.Args[0], strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}
