(* rf.lem1: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Lemma 1 (eq. 28); RS, Lemma A.1.
   "u, v in R^d are two arbitrary vectors, m is a {0,1}^d random mask independent from u, v, and subject to sum m = (1 - r)d. E<m^k (.) u, v> = (1 - r) E<u, v>." *)
From kernel Require Import definitions lemmas.

(* fixed vectors, of which every mask is independent; q is the mask's law, (1 - r)d = k; m^k = m *)
Definition mask_law (d k : nat) (q : law (list bool)) : Prop :=
  lawful q /\ Forall (fun a => length (snd a) = d /\ ones (snd a) = k) q.
Definition printed : Prop := forall d k q u v, (0 < k <= d)%nat -> mask_law d k q -> length u = d -> length v = d ->
  E q (fun m => dot (mask m u) v) = share d k * dot u v.
(* the mask is uniform; of the pair (u, v), any finite law that the mask is independent of *)
Definition correction : Prop := forall d k (p : law (vec * vec)), (0 < k <= d)%nat -> lawful p ->
  Forall (fun a => length (fst (snd a)) = d /\ length (snd (snd a)) = d) p ->
  avg (masks d k) (fun m => E p (fun uv => dot (mask m (fst uv)) (snd uv))) = share d k * E p (fun uv => dot (fst uv) (snd uv)).

(* two entries, one kept, always the first: E<m u, v> = 1 for u = v = (1, 0), printed 1/2 *)
Definition always : law (list bool) := [(1, [true; false])].
Lemma satisfiable : mask_law 2 1 always.
Proof. repeat split; [repeat constructor; simpl; lra | simpl; lra | repeat constructor]. Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 2%nat 1%nat always [1; 0] [1; 0] ltac:(lia) satisfiable eq_refl eq_refl).
  unfold E, always, share, dot in claim. simpl in claim. lra.
Qed.
Lemma swap d k (p : law (vec * vec)) (f : list bool -> vec * vec -> R) :
  avg (masks d k) (fun m => E p (f m)) = E p (fun uv => avg (masks d k) (fun m => f m uv)).
Proof.
  unfold E. induction p as [|[q uv] p IH]; simpl.
  - unfold avg. rewrite total_constant. unfold Rdiv. ring.
  - rewrite avg_add, avg_scale. f_equal. exact IH.
Qed.
Lemma E_ext_in {A} (p : law A) f g : Forall (fun a => f (snd a) = g (snd a)) p -> E p f = E p g.
Proof. intro h. apply total_map_ext. eapply Forall_impl; [|exact h]. simpl; intros ? ->; reflexivity. Qed.
Theorem correction_holds : correction.
Proof.
  intros d k p [k0 kd] lp F. rewrite swap, <- E_scale. apply E_ext_in.
  eapply Forall_impl; [|exact F]. simpl; intros [q [u v]] [eu ev]. simpl in *. apply masked_dot; lia.
Qed.
