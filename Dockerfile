# Image for cluster.yaml (`ray up`) and jobs/rayjob.yaml (KubeRay): Ray, its tools and hab_ray, all at pinned versions.
FROM rayproject/ray:2.60.0-py311

WORKDIR /home/ray/hab_ray
COPY --chown=ray:users pyproject.toml README.md LICENSE ./
COPY --chown=ray:users hab_ray ./hab_ray
COPY --chown=ray:users hab_simulator ./hab_simulator
COPY --chown=ray:users rubrics ./rubrics
COPY --chown=ray:users jobs ./jobs
RUN pip install --no-cache-dir --constraint jobs/constraints.txt '.[cluster,s3]'

WORKDIR /home/ray
