import { useQuery } from '@tanstack/react-query';
import type { ApplicationRef } from '../../api/appProxy';
import { manifestQuery } from '../../api/queries';
import type { ResourceRef } from '../../api/types';
import { CopyIcon } from '../../ui/CopyText';
import { Dialog } from '../../ui/Dialog';
import { Editor } from '../../ui/Editor';
import { QueryView } from '../../ui/States';

interface ResourceManifestProps {
  reference: ApplicationRef;
  of: ResourceRef;
  onClose: () => void;
}

/** One object as the cluster has it, also one that Git does not declare. What Git says instead is in the diff. */
export function ResourceManifest({ reference, of, onClose }: ResourceManifestProps) {
  const manifest = useQuery(manifestQuery(reference, of));
  return (
    <Dialog onClose={onClose} title={`${of.kind} ${of.resourceName}`} size="xl">
      <QueryView query={manifest} rows={12}>
        {({ yaml }) => (
          <div className="stack">
            <p className="row">
              As it was in the cluster when you opened this; secrets are masked.
              <CopyIcon text={yaml} what="manifest" />
            </p>
            <Editor key={yaml} readOnly value={yaml} label={`Manifest of ${of.kind} ${of.resourceName}`} />
          </div>
        )}
      </QueryView>
    </Dialog>
  );
}
