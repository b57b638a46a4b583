import type { RolloutMetric, RolloutRun } from '../../api/types';
import { Prose } from '../../ui/Prose';
import { sentence } from '../../ui/States';
import { Status } from '../../ui/Status';
import { Ago } from '../../ui/Time';
import { runTone } from '../tones';
import { MetricPlot } from './MetricPlot';
import styles from './RolloutPlayer.module.css';

/** What was measured, run by run. */
export function AnalysisRuns({ runs }: { runs: RolloutRun[] }) {
  if (runs.length === 0) return null;
  return (
    <div className="panel">
      <header>
        <h2>Analysis</h2>
      </header>
      <div className="body stack">
        {runs.map((run) => (
          <section key={run.name} aria-label={`Analysis run ${run.name}`}>
            <div className="row" style={{ flexWrap: 'wrap' }}>
              <Status tone={runTone(run.phase)}>{run.phase || 'Pending'}</Status>
              <strong className="mono">{run.name}</strong>
              <span className="muted">
                {typeof run.step === 'number' ? `Step ${run.step + 1}` : run.kind}
                {run.revision && `, revision ${run.revision}`}
              </span>
              {run.startedAt && <Ago at={run.startedAt} />}
            </div>
            {run.message && (
              <p>
                <Prose>{sentence(run.message)}</Prose>
              </p>
            )}
            {run.metrics.map((metric) => (
              <Metric key={metric.name} metric={metric} />
            ))}
          </section>
        ))}
      </div>
    </div>
  );
}

function Metric({ metric }: { metric: RolloutMetric }) {
  const counts = [
    [metric.successful, 'good'],
    [metric.failed, 'bad'],
    [metric.inconclusive, 'inconclusive'],
    [metric.error, 'errors'],
  ].filter(([count]) => count !== 0);
  const last = metric.measurements.at(-1);
  return (
    <div className={styles.metric}>
      <div>
        <Status plain tone={runTone(metric.phase)}>
          {metric.name}
        </Status>
        <div className="muted">
          {metric.provider}
          {metric.dryRun && ', dry run'}
          {counts.length > 0 && `: ${counts.map(([count, word]) => `${count} ${word}`).join(', ')}`}
        </div>
        {metric.successCondition && <code>{metric.successCondition}</code>}
        {(last?.message || metric.message) && <p>{last?.message || metric.message}</p>}
      </div>
      <MetricPlot metric={metric} />
    </div>
  );
}
