package main

import (
	"context"
	"encoding/json"
	"log"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
)

// Annotations by which the controller manager and a provisioner tell each other what is whose.
const (
	claimIsFor = "volume.kubernetes.io/storage-provisioner"
	claimNode  = "volume.kubernetes.io/selected-node"
	volumeIsOf = "pv.kubernetes.io/provisioned-by"
)

type controller struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	store   store
}

// provision makes the volume of a claim that has none.
func (c *controller) provision(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	if claim.Annotations[claimIsFor] != provisioner || claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil ||
		claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		return nil
	}
	class, err := c.classes.Get(*claim.Spec.StorageClassName)
	if err != nil {
		return err
	}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storage.VolumeBindingWaitForFirstConsumer
	if waits && claim.Annotations[claimNode] == "" {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	if _, err := c.volumes.Get(name); err == nil {
		return nil // not bound yet
	}
	mode := core.PersistentVolumeFilesystem
	if claim.Spec.VolumeMode != nil {
		mode = *claim.Spec.VolumeMode
	}
	size := claim.Spec.Resources.Requests[core.ResourceStorage]
	path, err := c.store.make(name, mode, size.Value())
	if err != nil {
		return err
	}
	volume := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{volumeIsOf: provisioner}},
		Spec: core.PersistentVolumeSpec{
			Capacity:         core.ResourceList{core.ResourceStorage: size},
			AccessModes:      claim.Spec.AccessModes,
			VolumeMode:       &mode,
			StorageClassName: class.Name,
			ClaimRef: &core.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeReclaimPolicy: core.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        core.PersistentVolumeSource{Local: &core.LocalVolumeSource{Path: path}},
			// Nodes share the disk; the kind "local" wants to be told.
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{
				MatchExpressions: []core.NodeSelectorRequirement{
					{Key: core.LabelHostname, Operator: core.NodeSelectorOpExists}}}}}},
		},
	}
	if class.ReclaimPolicy != nil {
		volume.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	_, err = c.client.CoreV1().PersistentVolumes().Create(ctx, volume, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return nil // by a pass whose news has not come back yet
	}
	if err == nil {
		log.Printf("claim %s/%s got %s", claim.Namespace, claim.Name, path)
	}
	return err
}

// grow gives a claim more when it asks for more than it has.
func (c *controller) grow(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	wanted, has := claim.Spec.Resources.Requests[core.ResourceStorage], claim.Status.Capacity[core.ResourceStorage]
	if wanted.Cmp(has) <= 0 {
		return nil
	}
	volume, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return err
	}
	if volume.Annotations[volumeIsOf] != provisioner {
		return nil
	}
	if err := c.store.grow(volume.Name, *volume.Spec.VolumeMode, wanted.Value()); err != nil {
		return err
	}
	capacity := map[string]any{"capacity": map[string]any{"storage": wanted.String()}}
	patch, err := json.Marshal(map[string]any{"spec": capacity})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, patch, meta.PatchOptions{})
	if err != nil {
		return err
	}
	if patch, err = json.Marshal(map[string]any{"status": capacity}); err != nil {
		return err
	}
	_, err = c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).
		Patch(ctx, claim.Name, types.MergePatchType, patch, meta.PatchOptions{}, "status")
	log.Printf("claim %s/%s grows to %s", claim.Namespace, claim.Name, wanted.String())
	return err
}

// reclaim removes a volume whose claim has gone.
func (c *controller) reclaim(ctx context.Context, volume *core.PersistentVolume) error {
	if volume.Annotations[volumeIsOf] != provisioner || volume.Status.Phase != core.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != core.PersistentVolumeReclaimDelete {
		return nil
	}
	if err := c.store.remove(volume.Name); err != nil {
		return err
	}
	err := c.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}
