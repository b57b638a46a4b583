{{- define "slipway-runtime.fullname" -}}
{{- if contains "slipway-runtime" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "slipway-runtime-%s" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Cluster-wide objects are of one release of one namespace. */ -}}
{{- define "slipway-runtime.global" -}}
{{- printf "%s-%s" .Release.Namespace (include "slipway-runtime.fullname" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slipway-runtime.selector" -}}
app.kubernetes.io/name: slipway
app.kubernetes.io/component: runtime
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "slipway-runtime.labels" -}}
{{ include "slipway-runtime.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "slipway-runtime.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "slipway-runtime.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "slipway-runtime.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* All that is wrong with the values, at once. */ -}}
{{- define "slipway-runtime.check" -}}
{{- $wrong := list -}}
{{- if not .Values.server.url -}}
{{- $wrong = append $wrong "server.url is needed: the address of the platform as seen from pods" -}}
{{- else if and (hasPrefix "http://" .Values.server.url) (not .Values.server.plainHttp) -}}
{{- $wrong = append $wrong "server.url has no TLS: a token would travel in clear. Use https, or set server.plainHttp to true" -}}
{{- end -}}
{{- if and .Values.token.value .Values.token.existingSecret -}}
{{- $wrong = append $wrong "token.value and token.existingSecret are both set: give one of them" -}}
{{- else if not (or .Values.token.value .Values.token.existingSecret) -}}
{{- $wrong = append $wrong "token.existingSecret or token.value is needed: `slipway runtime create NAME` prints a token" -}}
{{- end -}}
{{- if and (ne .Values.access.mode "tunnel") (not .Values.access.url) -}}
{{- $wrong = append $wrong (printf "access.url is needed with access.mode %s: the address that is registered with the platform" .Values.access.mode) -}}
{{- end -}}
{{- if and (eq .Values.access.mode "gateway") (not .Values.access.gateway.name) -}}
{{- $wrong = append $wrong "access.gateway.name is needed: the Gateway that the route is attached to" -}}
{{- end -}}
{{- $external := or .Values.access.ingress.externalClassName .Values.access.ingress.externalAnnotations .Values.access.ingress.externalTlsSecret .Values.access.gateway.externalName .Values.access.gateway.externalSectionName -}}
{{- if and $external (not .Values.access.externalHost) -}}
{{- $wrong = append $wrong "access.externalHost is needed: access.ingress.external… and access.gateway.external… are for it" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- $wrong = append $wrong "metrics.serviceMonitor.enabled needs metrics.enabled" -}}
{{- end -}}
{{- if and .Values.server.ca (not (contains "-----BEGIN CERTIFICATE-----" .Values.server.ca)) -}}
{{- $wrong = append $wrong "server.ca holds no certificate: it is PEM, with BEGIN CERTIFICATE" -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\n  - %s" (join "\n  - " $wrong)) -}}
{{- end -}}
{{- end -}}
