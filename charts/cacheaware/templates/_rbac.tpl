{{/*
The one list of what the operator may do. The roles are made of it, and `helm test` asks the
API server for each line of it. tests/chart holds the reason for each rule.
*/}}

{{/* In each served namespace, or in all of them. */}}
{{- define "cacheaware.rules" -}}
- apiGroups: [cacheaware.dev]
  resources: [cacheawarescalers]
  verbs: [get, list, watch, patch]
- apiGroups: [cacheaware.dev]
  resources: [cacheawarescalers/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get]
- apiGroups: [apps]
  resources: [deployments/scale, statefulsets/scale, replicasets/scale]
  verbs: [get, patch]
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get]
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets/scale]
  verbs: [get, patch]
{{- range .Values.rbac.extraScaleTargets }}
- apiGroups: [{{ .apiGroup | quote }}]
  resources: [{{ printf "%s/scale" .resource | quote }}]
  verbs: [get, patch]
{{- end }}
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* Of the cluster itself; only when all namespaces are served. */}}
{{- define "cacheaware.clusterRules" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [cacheaware-operator]
  verbs: [get]
{{- end -}}

{{/* In the operator's own namespace. A create can't be limited to a name. */}}
{{- define "cacheaware.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [cacheaware-operator]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [serviceaccounts/token]
  resourceNames: [{{ include "cacheaware.serviceAccountName" . }}]
  verbs: [create]
{{- end -}}

{{- define "cacheaware.subjects" -}}
- kind: ServiceAccount
  name: {{ include "cacheaware.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
