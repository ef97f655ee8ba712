package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// kubernetes decodes each object strictly (an unknown or repeated field is an error), and checks
// the names by which the objects refer to each other.
func kubernetes(deploy string) error {
	var all objects
	if err := all.read(filepath.Join(deploy, "kubernetes", "*.yaml"), filepath.Join(deploy, "monitoring", "podmonitor.yaml")); err != nil {
		return err
	}
	if len(all.deployments) != 3 || len(all.monitors) != 1 || len(all.gateways) != 1 || len(all.routes) != 2 {
		return fmt.Errorf("%d deployments, %d PodMonitors, %d gateways, %d routes",
			len(all.deployments), len(all.monitors), len(all.gateways), len(all.routes))
	}

	return errors.Join(all.checkDeployments(), all.checkRoutes())
}

// objects are the objects of all files.
type objects struct {
	deployments []*appsv1.Deployment
	services    []*corev1.Service
	monitors    []*monitoringv1.PodMonitor
	gateways    []*gatewayv1.Gateway
	routes      []*gatewayv1.HTTPRoute
}

// read decodes the files that match the patterns.
func (o *objects) read(patterns ...string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, gatewayv1.Install,
		monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no manifests %s: %w", pattern, err)
		}
		for _, file := range files {
			if err := o.readFile(decoder, file); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

func (o *objects) readFile(decoder runtime.Decoder, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return err
		}
		switch object := object.(type) {
		case *appsv1.Deployment:
			o.deployments = append(o.deployments, object)
		case *corev1.Service:
			o.services = append(o.services, object)
		case *monitoringv1.PodMonitor:
			o.monitors = append(o.monitors, object)
		case *gatewayv1.Gateway:
			o.gateways = append(o.gateways, object)
		case *gatewayv1.HTTPRoute:
			o.routes = append(o.routes, object)
		}
	}
	return nil
}

// checkDeployments checks that each states how its pods are replaced and spreads them over nodes, and
// that the PodMonitor finds them and their port.
func (o *objects) checkDeployments() error {
	monitor := o.monitors[0].Spec
	for _, deployment := range o.deployments {
		if deployment.Spec.Strategy.Type == "" {
			return fmt.Errorf("deployment %s has no strategy", deployment.Name)
		}

		pod := deployment.Spec.Template
		if !spreads(pod) {
			return fmt.Errorf("deployment %s does not spread its pods over nodes", deployment.Name)
		}
		if !labels.SelectorFromSet(monitor.Selector.MatchLabels).Matches(labels.Set(pod.Labels)) || pod.Labels[monitor.JobLabel] != "tallygate" {
			return fmt.Errorf("the PodMonitor does not select the pods of %s, or not as the job tallygate", deployment.Name)
		}
		for _, endpoint := range monitor.PodMetricsEndpoints {
			if endpoint.Port == nil || !hasPort(pod.Spec.Containers, *endpoint.Port) {
				return fmt.Errorf("the pods of %s lack the PodMonitor's port", deployment.Name)
			}
		}
	}
	return nil
}

// spreads reports whether a constraint counts the pods of this template alone.
func spreads(pod corev1.PodTemplateSpec) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.TopologyKey == corev1.LabelHostname && c.LabelSelector != nil && maps.Equal(c.LabelSelector.MatchLabels, pod.Labels)
	})
}

func hasPort(containers []corev1.Container, name string) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	})
}

// checkRoutes checks that each route has a listener of its name and host, and that its services and
// their ports exist.
func (o *objects) checkRoutes() error {
	gateway := o.gateways[0]
	for _, route := range o.routes {
		for _, parent := range route.Spec.ParentRefs {
			known := slices.ContainsFunc(gateway.Spec.Listeners, func(l gatewayv1.Listener) bool {
				return l.Name == *parent.SectionName && slices.Contains(route.Spec.Hostnames, *l.Hostname)
			})
			if string(parent.Name) != gateway.Name || !known {
				return fmt.Errorf("the gateway has no listener for the route %s", route.Name)
			}
		}

		for _, rule := range route.Spec.Rules {
			for _, backend := range rule.BackendRefs {
				known := slices.ContainsFunc(o.services, func(s *corev1.Service) bool {
					return s.Name == string(backend.Name) && s.Spec.Ports[0].Port == int32(*backend.Port)
				})
				if !known {
					return fmt.Errorf("the route %s leads to no service", route.Name)
				}
			}
		}
	}
	return nil
}
