(* rf.posterior: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix G (eq. 71 to 75).
   gbar = (1/B) sum m (.) clip(g_i) (posterior freeze), ghat = (1/B) sum clip(m (.) g_i) (random freeze): E |gbar|^2 <= E |ghat|^2. *)
From kernel Require Import definitions lemmas.

Definition after_clip d C m (gs : list vec) : vec := average d (map (fun g => mask m (clip C g)) gs).
Definition before_clip d C m (gs : list vec) : vec := average d (map (fun g => clip C (mask m g)) gs).
Definition printed : Prop := forall d k C gs, (0 < k <= d)%nat -> 0 < C -> gs <> [] -> Forall (fun g => length g = d) gs ->
  avg (masks d k) (fun m => square (after_clip d C m gs)) <= avg (masks d k) (fun m => square (before_clip d C m gs)).
(* what is true of every batch, with g_C = (1/B) sum clip(g_i) *)
Definition correction : Prop := forall d k C gs u, (0 < k <= d)%nat -> 0 < C -> gs <> [] -> Forall (fun g => length g = d) gs ->
  length u = d ->
  avg (masks d k) (fun m => square (after_clip d C m gs)) = share d k * square (average d (map (clip C) gs)) /\
  avg (masks d k) (fun m => dot (after_clip d C m gs) u) = share d k * dot (average d (map (clip C) gs)) u.
