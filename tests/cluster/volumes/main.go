// Command volumes makes what claims ask for: a folder, or a loop device on a file. It stands in for the driver of a storage
// system, and does for one machine whose nodes share their disk what that does for many:
//
//	claim of our class ──► volume (local, for every node) ──► bound by the controller manager
//	claim asks for more ──► volume and device grow ──► the claim says so
//	claim is gone ──► volume is Released ──► folder or device goes, then the volume
//
// It keeps nothing in memory: each pass looks at all claims and volumes and does what is missing, so that it may be
// killed at any time. Claims with a source of data are left to whoever fills them.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const provisioner = "volumes.coracle.example"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of an administrator")
	folder := flag.String("folder", "", "where the volumes are, on this machine")
	inNode := flag.String("in-node", "", "the same folder, as nodes see it")
	flag.Parse()
	if *kubeconfig == "" || *folder == "" || *inNode == "" || flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1
	client := kubernetes.NewForConfigOrDie(config)

	factory := informers.NewSharedInformerFactory(client, 0)
	claims, volumes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes()
	classes := factory.Storage().V1().StorageClasses()
	c := controller{client, claims.Lister(), volumes.Lister(), classes.Lister(), store{*folder, *inNode}}

	// One pass at a time; whatever happens during one leads to another.
	wake := make(chan struct{}, 1)
	for _, informer := range []cache.SharedIndexInformer{claims.Informer(), volumes.Informer(), classes.Informer()} {
		poke := func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { poke() },
			UpdateFunc: func(any, any) { poke() },
			DeleteFunc: func(any) { poke() },
		})
	}
	ctx := context.Background()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for {
		c.pass(ctx)
		select {
		case <-wake:
		case <-time.After(2 * time.Second): // what failed is tried again
		}
	}
}

// pass does everything that is to be done now. What fails is logged, and tried again in the next.
func (c *controller) pass(ctx context.Context) {
	claims, err := c.claims.List(labels.Everything())
	if err != nil {
		log.Print(err)
		return
	}
	for _, claim := range claims {
		switch {
		case claim.Spec.VolumeName == "":
			err = c.provision(ctx, claim)
		case claim.Status.Phase == core.ClaimBound:
			err = c.grow(ctx, claim)
		default:
			continue
		}
		if err != nil {
			log.Printf("claim %s/%s: %v", claim.Namespace, claim.Name, err)
		}
	}
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		log.Print(err)
		return
	}
	for _, volume := range volumes {
		if err := c.reclaim(ctx, volume); err != nil {
			log.Printf("volume %s: %v", volume.Name, err)
		}
	}
}
