{{- define "slipway.fullname" -}}
{{- if contains "slipway" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-slipway" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "slipway.selector" -}}
app.kubernetes.io/name: slipway
app.kubernetes.io/component: server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "slipway.labels" -}}
{{ include "slipway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "slipway.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "slipway.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "slipway.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "slipway.claim" -}}
{{- default (include "slipway.fullname" .) .Values.persistence.existingClaim -}}
{{- end -}}

{{- /* "postgres" or "sqlite" */ -}}
{{- define "slipway.engine" -}}
{{- if or .Values.database.url .Values.database.existingSecret -}}postgres{{- else -}}sqlite{{- end -}}
{{- end -}}

{{- define "slipway.host" -}}
{{- (urlParse .Values.publicUrl).host | splitList ":" | first -}}
{{- end -}}

{{- /* All that is wrong with the values, at once. */ -}}
{{- define "slipway.check" -}}
{{- $wrong := list -}}
{{- if not .Values.publicUrl -}}
{{- $wrong = append $wrong "publicUrl is needed: where people, agents and git reach the platform, like https://slipway.example.com" -}}
{{- else if not (regexMatch "^https?://[^/]+$" .Values.publicUrl) -}}
{{- $wrong = append $wrong (printf "publicUrl %q is not an address with a scheme and without a path" .Values.publicUrl) -}}
{{- end -}}
{{- range $name := list "database" "bus" "cache" -}}
{{- $part := index $.Values $name -}}
{{- if and $part.url $part.existingSecret -}}
{{- $wrong = append $wrong (printf "%s.url and %s.existingSecret are both set: give one of them" $name $name) -}}
{{- end -}}
{{- end -}}
{{- $several := or (gt (int .Values.replicas) 1) (gt (len .Values.workloads) 0) -}}
{{- if and $several (eq (include "slipway.engine" .) "sqlite") -}}
{{- $wrong = append $wrong "more than one process needs PostgreSQL: set database.url or database.existingSecret, or replicas to 1 and workloads to []" -}}
{{- end -}}
{{- if eq (include "slipway.engine" .) "postgres" -}}
{{- range $name := list "bus" "cache" -}}
{{- $part := index $.Values $name -}}
{{- if not (or $part.url $part.existingSecret) -}}
{{- $wrong = append $wrong (printf "PostgreSQL needs %s.url or %s.existingSecret as well: other processes would not hear of anything" $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $several (not .Values.persistence.existingClaim) (not (has "ReadWriteMany" .Values.persistence.accessModes)) -}}
{{- $wrong = append $wrong "more than one process needs storage that all can mount: set persistence.accessModes to [ReadWriteMany], or persistence.existingClaim" -}}
{{- end -}}
{{- if and .Values.ingress.enabled .Values.gateway.enabled -}}
{{- $wrong = append $wrong "ingress.enabled and gateway.enabled are both set: choose one" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.name) -}}
{{- $wrong = append $wrong "gateway.name is needed: the Gateway that the route is attached to" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.serviceMonitor.keySecret) -}}
{{- $wrong = append $wrong "metrics.serviceMonitor.keySecret is needed: metrics are served to a key with the scope metrics:read" -}}
{{- end -}}
{{- if and .Values.ca (not (contains "-----BEGIN CERTIFICATE-----" .Values.ca)) -}}
{{- $wrong = append $wrong "ca holds no certificate: it is PEM, with BEGIN CERTIFICATE" -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\n  - %s" (join "\n  - " $wrong)) -}}
{{- end -}}
{{- end -}}

{{- /* The pod of one workload: dict "root" $ "name" … "roles" […] */ -}}
{{- define "slipway.pod" -}}
{{- $ := .root -}}
metadata:
  labels:
    {{- include "slipway.labels" $ | nindent 4 }}
    slipway.io/workload: {{ .name }}
    {{- with $.Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # Changed settings restart the processes.
    slipway.io/settings: {{ include (print $.Template.BasePath "/secret.yaml") $ | sha256sum | trunc 16 }}
    {{- with $.Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "slipway.account" $ }}
  # The platform holds no kubeconfig and asks no cluster.
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 20
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  {{- with $.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $.Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  topologySpreadConstraints:
    {{- if $.Values.topologySpreadConstraints }}
    {{- toYaml $.Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "slipway.selector" $ | nindent 10 }}
    {{- end }}
  containers:
    - name: server
      image: {{ include "slipway.image" $ }}
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      command: [slipway]
      args:
        - server
        - --data=/data/slipway
        - --listen=0.0.0.0:8080
        - --public-url={{ $.Values.publicUrl }}
        - --admin-email={{ $.Values.admin.email }}
        {{- if $.Values.admin.existingSecret }}
        - --admin-password-file=/admin/{{ $.Values.admin.key }}
        {{- end }}
        {{- if .roles }}
        - --roles={{ join "," .roles }}
        {{- end }}
        {{- if $.Values.tls.secretName }}
        - --tls-certificate=/tls/tls.crt
        - --tls-key=/tls/tls.key
        {{- end }}
        {{- range $.Values.egressAllow }}
        - --egress-allow={{ . }}
        {{- end }}
        {{- range $.Values.trustedProxies }}
        - --trusted-proxy={{ . }}
        {{- end }}
        {{- with $.Values.tunnelDomain }}
        - --tunnel-domain={{ . }}
        {{- end }}
        - --runner-image={{ include "slipway.image" $ }}
        {{- range $.Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        {{- if eq (include "slipway.engine" $) "postgres" }}
        {{- range $variable, $part := dict "SLIPWAY_DATABASE" $.Values.database "SLIPWAY_BUS" $.Values.bus "SLIPWAY_CACHE_URL" $.Values.cache }}
        - name: {{ $variable }}
          valueFrom: { secretKeyRef: { name: {{ default (include "slipway.fullname" $) $part.existingSecret }}, key: {{ $part.key }} } }
        {{- end }}
        {{- end }}
        {{- if $.Values.ca }}
        # The system's, and those of the folder.
        - { name: SSL_CERT_FILE, value: /etc/ssl/certs/ca-certificates.crt }
        - { name: SSL_CERT_DIR, value: /ca }
        {{- end }}
        {{- with $.Values.proxy.https }}
        - { name: HTTPS_PROXY, value: {{ . | quote }} }
        {{- end }}
        {{- with $.Values.proxy.http }}
        - { name: HTTP_PROXY, value: {{ . | quote }} }
        {{- end }}
        {{- with $.Values.proxy.exclude }}
        - { name: NO_PROXY, value: {{ . | quote }} }
        {{- end }}
        {{- with $.Values.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - { name: http, containerPort: 8080 }
      {{- $scheme := ternary "HTTPS" "HTTP" (ne $.Values.tls.secretName "") }}
      startupProbe:
        httpGet: { path: /healthz, port: http, scheme: {{ $scheme }} }
        periodSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet: { path: /healthz, port: http, scheme: {{ $scheme }} }
        periodSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: http, scheme: {{ $scheme }} }
        periodSeconds: 3
        timeoutSeconds: 3
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      resources: {{- toYaml $.Values.resources | nindent 8 }}
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: tmp, mountPath: /tmp }
        {{- if $.Values.admin.existingSecret }}
        - { name: admin, mountPath: /admin, readOnly: true }
        {{- end }}
        {{- if $.Values.tls.secretName }}
        - { name: tls, mountPath: /tls, readOnly: true }
        {{- end }}
        {{- if $.Values.ca }}
        - { name: ca, mountPath: /ca, readOnly: true }
        {{- end }}
  volumes:
    - name: data
      persistentVolumeClaim: { claimName: {{ include "slipway.claim" $ }} }
    - { name: tmp, emptyDir: {} }
    {{- with $.Values.admin.existingSecret }}
    - name: admin
      secret: { secretName: {{ . }} }
    {{- end }}
    {{- with $.Values.tls.secretName }}
    - name: tls
      secret: { secretName: {{ . }} }
    {{- end }}
    {{- if $.Values.ca }}
    - name: ca
      configMap: { name: {{ include "slipway.fullname" $ }} }
    {{- end }}
{{- end -}}
