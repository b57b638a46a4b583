{{- define "slipway-runner.runner" -}}
{{- default .Release.Name .Values.name -}}
{{- end -}}

{{- define "slipway-runner.fullname" -}}
{{- printf "slipway-runner-%s" (include "slipway-runner.runner" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "slipway-runner.selector" -}}
app.kubernetes.io/name: slipway
app.kubernetes.io/component: runner
app.kubernetes.io/instance: {{ include "slipway-runner.runner" . }}
{{- end -}}

{{- define "slipway-runner.labels" -}}
{{ include "slipway-runner.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "slipway-runner.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "slipway-runner.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "slipway-runner.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}
