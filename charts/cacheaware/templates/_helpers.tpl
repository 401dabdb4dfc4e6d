{{- define "cacheaware.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "cacheaware.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "cacheaware.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Deployment's selector can never change: keep it small. */}}
{{- define "cacheaware.selectorLabels" -}}
app.kubernetes.io/name: {{ include "cacheaware.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* Labels of every object: ours first, then `extra`, then commonLabels; the first one wins. */}}
{{- define "cacheaware.labels" -}}
{{- $root := .root | default . -}}
{{- $ours := dict
  "app.kubernetes.io/name" (include "cacheaware.name" $root)
  "app.kubernetes.io/instance" $root.Release.Name
  "app.kubernetes.io/component" (.component | default "operator")
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/part-of" "cacheaware"
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_")
-}}
{{- toYaml (merge $ours (.extra | default dict) $root.Values.commonLabels) -}}
{{- end -}}

{{- define "cacheaware.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "cacheaware.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "cacheaware.image" -}}
{{- $repository := required "image.repository is empty: name the repository of the operator's image, for instance --set image.repository=registry.example.com/cacheaware/operator (`make images` builds docker.io/cacheaware/operator with the tag dev)" .Values.image.repository -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- with .Values.image.digest -}}{{- printf "@%s" . -}}{{- end -}}
{{- end -}}

{{- define "cacheaware.monitorCheck" -}}
{{- if and .values.crdCheck (not (.root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
{{- fail (printf "%s.enabled is true, but this cluster has no monitoring.coreos.com/v1: install the prometheus-operator's CustomResourceDefinitions first, or set %s.crdCheck=false when rendering without a cluster" .key .key) -}}
{{- end -}}
{{- end -}}
