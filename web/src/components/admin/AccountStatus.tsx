import { Status, type Tone } from '../../ui/Status';

const TONES: Record<string, Tone> = { active: 'ok', suspended: 'wait', deleted: 'off' };

export function AccountStatus({ status }: { status: string }) {
  return <Status tone={TONES[status] ?? 'off'}>{status}</Status>;
}
