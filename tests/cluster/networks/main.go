// Command networks is a network plug-in that calls others: the one of the cluster for eth0, and for each network that a pod
// asks for one more, with a card of its own. It stands in for Multus (as its thin plug-in), which no module proxy has, and
// reads and writes the same annotations:
//
//	k8s.v1.cni.cncf.io/networks          which NetworkAttachmentDefinitions: a JSON list, or names with commas
//	v1.multus-cni.io/default-network     which one in place of the cluster's
//	k8s.v1.cni.cncf.io/network-status    what there is, written once all is there
//
// The definitions of any namespace may be named, as with Multus unless namespaceIsolation is set. A name alone is one of
// the pod's namespace, and for the default one of kube-system. What was begun is noted in a file first, so that its end
// needs no API server.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// notes is where the networks of each pod are noted, and what libcni keeps for their end. Gone with the node's power, as
// its pods are.
const notes = "/run/cni/networks"

// patience is how long one pod may take.
const patience = 60 * time.Second

// settings are what the node's file says.
type settings struct {
	types.PluginConf
	Kubeconfig    string          `json:"kubeconfig"`
	Cluster       json.RawMessage `json:"cluster"`
	RuntimeConfig map[string]any  `json:"runtimeConfig"`
}

// attachment is one card: the plug-ins to call, and what they are told.
type attachment struct {
	Name    string          `json:"name"`
	Card    string          `json:"card"`
	MAC     string          `json:"mac,omitempty"`
	Default bool            `json:"default,omitempty"`
	Config  json.RawMessage `json:"config"`
}

// status is one entry of what the pod is told that it has.
type status struct {
	Name      string    `json:"name"`
	Interface string    `json:"interface"`
	IPs       []string  `json:"ips,omitempty"`
	MAC       string    `json:"mac,omitempty"`
	Default   bool      `json:"default,omitempty"`
	DNS       types.DNS `json:"dns"`
}

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: del, Check: check}, version.All, "networks: calls others")
}

func add(args *skel.CmdArgs) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	settings, err := read(args)
	if err != nil {
		return err
	}
	cluster, err := connect(ctx, settings.Kubeconfig, args)
	if err != nil {
		return err
	}
	wanted, err := cluster.wanted(ctx, attachment{Card: args.IfName, Default: true, Config: settings.Cluster})
	if err != nil {
		return err
	}
	if err := note(args, wanted); err != nil {
		return err
	}
	var first types.Result
	var told []status
	for _, one := range wanted {
		result, list, err := one.call(ctx, settings, args)
		if err != nil {
			return errors.Join(fmt.Errorf("network %q for %s: %w", one.Name, one.Card, err), undo(ctx, settings, args, wanted))
		}
		if first == nil {
			first = result
		}
		entry, err := one.status(list.Name, result)
		if err != nil {
			return err
		}
		told = append(told, entry)
	}
	if err := cluster.tell(ctx, told); err != nil {
		return errors.Join(err, undo(ctx, settings, args, wanted))
	}
	return types.PrintResult(first, settings.CNIVersion)
}

func del(args *skel.CmdArgs) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	settings, err := read(args)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(noted(args))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was never begun, or has ended
	}
	var wanted []attachment
	if err == nil {
		err = json.Unmarshal(text, &wanted)
	}
	if err != nil {
		return err
	}
	return undo(ctx, settings, args, wanted)
}

func check(*skel.CmdArgs) error { return nil }

func read(args *skel.CmdArgs) (*settings, error) {
	settings := &settings{}
	return settings, json.Unmarshal(args.StdinData, settings)
}

func noted(args *skel.CmdArgs) string { return filepath.Join(notes, args.ContainerID+".json") }

// note keeps what is to be ended: the file is whole or not there.
func note(args *skel.CmdArgs, wanted []attachment) error {
	text, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(notes, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(noted(args)+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(noted(args)+".new", noted(args))
}

// undo ends what is noted, the last first; what never began is no fault to a plug-in.
func undo(ctx context.Context, settings *settings, args *skel.CmdArgs, wanted []attachment) error {
	var failed error
	for i := len(wanted) - 1; i >= 0; i-- {
		list, err := wanted[i].plugins()
		if err == nil {
			err = plugins(args).DelNetworkList(ctx, list, wanted[i].runtime(settings, args))
		}
		failed = errors.Join(failed, err)
	}
	if failed == nil {
		failed = os.Remove(noted(args))
	}
	return failed
}

func plugins(args *skel.CmdArgs) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(filepath.SplitList(args.Path), filepath.Join(notes, "cache"), nil)
}

func (a attachment) call(ctx context.Context, settings *settings, args *skel.CmdArgs) (types.Result, *libcni.NetworkConfigList, error) {
	list, err := a.plugins()
	if err != nil {
		return nil, nil, err
	}
	result, err := plugins(args).AddNetworkList(ctx, list, a.runtime(settings, args))
	return result, list, err
}

// plugins reads a definition: a list of plug-ins, or one. A name is that of the definition where it has none.
func (a attachment) plugins() (*libcni.NetworkConfigList, error) {
	var config map[string]any
	if err := json.Unmarshal(a.Config, &config); err != nil {
		return nil, fmt.Errorf("its config is not JSON: %w", err)
	}
	if name, _ := config["name"].(string); name == "" {
		config["name"] = strings.ReplaceAll(a.Name, "/", "-")
	}
	if version, _ := config["cniVersion"].(string); version == "" {
		config["cniVersion"] = current.ImplementedSpecVersion
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	if _, isList := config["plugins"]; isList {
		return libcni.NetworkConfFromBytes(text)
	}
	one, err := libcni.NetworkPluginConfFromBytes(text)
	if err != nil {
		return nil, err
	}
	return libcni.ConfListFromConf(one)
}

func (a attachment) runtime(settings *settings, args *skel.CmdArgs) *libcni.RuntimeConf {
	told := [][2]string{{"IgnoreUnknown", "1"}}
	for _, pair := range strings.Split(args.Args, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok && key != "IgnoreUnknown" {
			told = append(told, [2]string{key, value})
		}
	}
	capable := map[string]any{}
	if a.Default {
		capable = settings.RuntimeConfig
	}
	if a.MAC != "" {
		told = append(told, [2]string{"MAC", a.MAC})
		capable = map[string]any{"mac": a.MAC}
	}
	return &libcni.RuntimeConf{
		ContainerID: args.ContainerID, NetNS: args.Netns, IfName: a.Card, Args: told, CapabilityArgs: capable,
	}
}

func (a attachment) status(plugin string, result types.Result) (status, error) {
	made, err := current.NewResultFromResult(result)
	if err != nil {
		return status{}, err
	}
	entry := status{Name: a.Name, Interface: a.Card, Default: a.Default, DNS: made.DNS}
	if entry.Name == "" {
		entry.Name = plugin
	}
	for _, one := range made.Interfaces {
		if one.Sandbox != "" && one.Name == a.Card {
			entry.MAC = one.Mac
		}
	}
	for _, ip := range made.IPs {
		entry.IPs = append(entry.IPs, ip.Address.IP.String())
	}
	return entry, nil
}
