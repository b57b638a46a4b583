import type { RolloutMetric } from '../../api/types';
import { full } from '../../ui/time';
import { runTone } from '../tones';
import { plotOf } from './plot';
import styles from './RolloutPlayer.module.css';

const WIDTH = 320;
const HEIGHT = 72;
const EDGE = { left: 44, right: 8, top: 8, bottom: 8 };

/** Measurements in their order. What each was is said besides, for whoever does not see it. */
export function MetricPlot({ metric }: { metric: RolloutMetric }) {
  const plot = plotOf(metric.measurements);
  if (!plot) {
    const last = metric.measurements.at(-1);
    return (
      <span className="muted">
        {last ? `${last.phase}${last.value ? `: ${last.value}` : ''}` : 'Nothing was measured yet.'}
      </span>
    );
  }
  const x = (share: number) => EDGE.left + (share / 100) * (WIDTH - EDGE.left - EDGE.right);
  const y = (share: number) => EDGE.top + (share / 100) * (HEIGHT - EDGE.top - EDGE.bottom);
  const values = plot.points
    .map(({ measurement }) => `${measurement.value} (${measurement.phase})`)
    .join(', ');
  return (
    <svg
      className={styles.plot}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`Measurements of ${metric.name}: ${values}`}
    >
      <text x={EDGE.left - 6} y={EDGE.top + 4} textAnchor="end">
        {short(plot.most)}
      </text>
      {plot.most !== plot.least && (
        <text x={EDGE.left - 6} y={HEIGHT - EDGE.bottom + 2} textAnchor="end">
          {short(plot.least)}
        </text>
      )}
      <polyline points={plot.points.map((point) => `${x(point.x)},${y(point.y)}`).join(' ')} />
      {plot.points.map((point, index) => (
        <circle
          key={`${index}-${point.measurement.at}`}
          cx={x(point.x)}
          cy={y(point.y)}
          r={3}
          data-tone={runTone(point.measurement.phase)}
        >
          <title>
            {point.measurement.value}, {point.measurement.phase}
            {point.measurement.at && `, ${full(point.measurement.at)}`}
          </title>
        </circle>
      ))}
    </svg>
  );
}

const short = (value: number): string => String(Number(value.toPrecision(4)));
