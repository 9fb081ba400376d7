package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	kinds "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	wantedNote   = "k8s.v1.cni.cncf.io/networks"
	defaultNote  = "v1.multus-cni.io/default-network"
	attachedNote = "k8s.v1.cni.cncf.io/network-status"
	// Where a default is looked for that names no namespace.
	home = "kube-system"
)

var name = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// cluster is the API server, as the node may ask it, and the pod that a network is made for.
type cluster struct {
	client *kubernetes.Clientset
	pod    *core.Pod
}

// selection is one entry of what a pod asks for.
type selection struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Interface string `json:"interface"`
	MAC       string `json:"mac"`
}

func connect(ctx context.Context, kubeconfig string, args *skel.CmdArgs) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	told := map[string]string{}
	for _, pair := range strings.Split(args.Args, ";") {
		key, value, _ := strings.Cut(pair, "=")
		told[key] = value
	}
	pod, err := client.CoreV1().Pods(told["K8S_POD_NAMESPACE"]).Get(ctx, told["K8S_POD_NAME"], meta.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("the pod that asks for networks: %w", err)
	}
	// A pod of that name that came later asks for its own.
	if uid := told["K8S_POD_UID"]; uid != "" && string(pod.UID) != uid {
		return nil, fmt.Errorf("pod %s/%s is another one by now", pod.Namespace, pod.Name)
	}
	return &cluster{client, pod}, nil
}

// wanted are the cards of the pod, the default first.
func (c *cluster) wanted(ctx context.Context, first attachment) ([]attachment, error) {
	if text := c.pod.Annotations[defaultNote]; text != "" {
		list, err := selections(text, home)
		if err != nil || len(list) != 1 {
			return nil, fmt.Errorf("the annotation %s names not one network: %q", defaultNote, text)
		}
		if first.Config, err = c.definition(ctx, list[0]); err != nil {
			return nil, err
		}
		first.Name, first.MAC = list[0].Namespace+"/"+list[0].Name, list[0].MAC
	}
	all := []attachment{first}
	list, err := selections(c.pod.Annotations[wantedNote], c.pod.Namespace)
	if err != nil {
		return nil, fmt.Errorf("the annotation %s: %w", wantedNote, err)
	}
	for i, one := range list {
		config, err := c.definition(ctx, one)
		if err != nil {
			return nil, err
		}
		card := one.Interface
		if card == "" {
			card = fmt.Sprintf("net%d", i+1)
		}
		all = append(all, attachment{Name: one.Namespace + "/" + one.Name, Card: card, MAC: one.MAC, Config: config})
	}
	return all, nil
}

// selections reads a JSON list, or names with commas: NAMESPACE/NAME@CARD.
func selections(text, namespace string) ([]selection, error) {
	var list []selection
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, err
		}
	} else {
		for _, word := range strings.Split(text, ",") {
			if word = strings.TrimSpace(word); word == "" {
				continue
			}
			word, card, _ := strings.Cut(word, "@")
			one := selection{Name: word, Interface: card}
			if space, rest, ok := strings.Cut(word, "/"); ok {
				one.Namespace, one.Name = space, rest
			}
			list = append(list, one)
		}
	}
	for i := range list {
		if list[i].Namespace == "" {
			list[i].Namespace = namespace
		}
		if !name.MatchString(list[i].Name) || !name.MatchString(list[i].Namespace) {
			return nil, fmt.Errorf("%q is not the name of a network", list[i].Namespace+"/"+list[i].Name)
		}
	}
	return list, nil
}

func (c *cluster) definition(ctx context.Context, one selection) (json.RawMessage, error) {
	path := fmt.Sprintf("/apis/k8s.cni.cncf.io/v1/namespaces/%s/network-attachment-definitions/%s", one.Namespace, one.Name)
	text, err := c.client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("NetworkAttachmentDefinition %s/%s: %w", one.Namespace, one.Name, err)
	}
	var object struct{ Spec struct{ Config string } }
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	if object.Spec.Config == "" {
		return nil, fmt.Errorf("NetworkAttachmentDefinition %s/%s has no spec.config", one.Namespace, one.Name)
	}
	return json.RawMessage(object.Spec.Config), nil
}

// tell writes what the pod has. A pod that asks for nothing is left as it is.
func (c *cluster) tell(ctx context.Context, told []status) error {
	if len(told) < 2 && c.pod.Annotations[defaultNote] == "" {
		return nil
	}
	text, err := json.Marshal(told)
	if err != nil {
		return err
	}
	notes := map[string]string{attachedNote: string(text)}
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": notes, "uid": c.pod.UID}})
	if err != nil {
		return err
	}
	pods := c.client.CoreV1().Pods(c.pod.Namespace)
	_, err = pods.Patch(ctx, c.pod.Name, kinds.MergePatchType, change, meta.PatchOptions{}, "status")
	return err
}
